import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import { describe, it } from "node:test";
import { list, record } from "../../support/openai.ts";
import { startKokoroDouble, spoken, type KokoroDoubleOptions } from "../../doubles/kokoro.ts";
import { heardIn, startWhisperDouble } from "../../doubles/whisper.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { formBody } from "../../support/form.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { later } from "../../support/later.ts";
import { fileOf, model, slot, transcriptions, upload, wavOf } from "./gateway.ts";

const wav = wavOf(1_000_000);
const file = fileOf(wav);
const small = fileOf(wavOf(100));

describe(`POST ${transcriptions}`, () => {
  for (const parts of [
    [model, file],
    [file, model],
  ]) {
    const order = parts.map(({ name }) => name).join(", ");
    it(`reaches the slot that the form names: ${order}`, async () => {
      await using engine = await startWhisperDouble({ path: transcriptions });
      await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
      const response = await upload(gateway, parts);
      assert.deepEqual([response.status, await response.json()], [200, { text: heardIn(wav) }]);
      assert.deepEqual(engine.calls[0]?.fields, { model: "kokoro" });
      assert.equal(await gateway.metric(`berth_requests_total{route="${transcriptions}",slot="stt",code="200"}`), 1);
    });

    it(`is held while the slot is cold: ${order}`, async () => {
      await using engine = await startWhisperDouble({ path: transcriptions });
      await using gateway = await startGateway({ slots: { stt: slot("stt") } });
      const answered = later(upload(gateway, parts));
      await until("it is demand", () => gateway.demand("stt")?.held === 1);
      await gateway.publish("stt", slot("stt", engine.port));
      assert.deepEqual(await (await answered).json(), { text: heardIn(wav) });
    });
  }

  it("is refused at once where it is wrong, although the slot is cold", async () => {
    await using gateway = await startGateway({ slots: { stt: slot("stt"), tts: slot("tts") } });
    const named = (value: string) => ({ name: "model", value });
    for (const [parts, status, code] of [
      [[model, { name: "response_format", value: "xml" }, file], 400, "dispatch.invalid_request"],
      [[model, file, file], 400, "dispatch.invalid_request"],
      [[model, small, small], 400, "dispatch.invalid_request"],
      [[named("nobody"), file], 404, "model.not_found"],
      [[named("tts"), file], 400, "dispatch.capability_mismatch"],
    ] as const) {
      const response = await upload(gateway, parts);
      assert.deepEqual([response.status, (await envelopeOf(response)).error.code], [status, code]);
    }
    assert.equal(await gateway.metric('berth_requests_held{slot="stt"}'), 0, "nothing waits for nobody");
  });

  it("is forgotten when its client leaves within the upload, though the slot is cold", async () => {
    await using gateway = await startGateway({ slots: { stt: slot("stt") } });
    const request = httpRequest(new URL(transcriptions, gateway.url), {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b" },
    });
    request.on("error", () => undefined);
    request.write(formBody("b", [model, file]).subarray(0, 800_000));
    await until("it is held", () => gateway.demand("stt")?.held === 1);
    request.destroy();
    await until("it is forgotten", () => gateway.demand("stt")?.held === 0);
  });

  it("frees the engine when its client leaves before the answer", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions, fault: "hang" });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const request = httpRequest(new URL(transcriptions, gateway.url), {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b" },
    });
    request.on("error", () => undefined);
    request.end(formBody("b", [model, file]));
    await until("the engine has it", () => engine.calls[0]?.isWhole);
    request.destroy();
    await until("the engine is let go", () => engine.calls[0]?.isGone);
  });

  it("sends an upload once more to an engine that did not take the connection, whole", async () => {
    const engine = await startWhisperDouble({ path: transcriptions, port: await freePort() });
    const { port } = engine;
    await using gateway = await startGateway({ slots: { stt: slot("stt", port) } });
    await engine[Symbol.asyncDispose]();
    const answered = later(upload(gateway, [model, file]));
    await using second = await startWhisperDouble({ path: transcriptions, port });
    assert.deepEqual(await (await answered).json(), { text: heardIn(wav) });
    assert.equal(second.calls.length, 1);
  });
});

describe("POST /v1/audio/speech", () => {
  const speech = "/v1/audio/speech";
  const saying = { model: "tts", input: "hello", voice: "af_heart" };
  const open = async (double: KokoroDoubleOptions = {}) => {
    await using stack = new AsyncDisposableStack();
    const engine = stack.use(await startKokoroDouble(double));
    const gateway = stack.use(await startGateway({ slots: { tts: slot("tts", engine.port) } }));
    const owned = stack.move();
    return { engine, gateway, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  };

  it("answers each format with its type", async () => {
    await using site = await open();
    for (const [format, type] of [
      [undefined, "audio/mpeg"],
      ["mp3", "audio/mpeg"],
      ["wav", "audio/wav"],
      ["opus", "audio/opus"],
      ["flac", "audio/flac"],
      ["pcm", "audio/pcm"],
    ] as const) {
      const response = await site.gateway.post(speech, { ...saying, response_format: format });
      assert.deepEqual([response.status, response.headers.get("content-type")], [200, type]);
      assert.deepEqual(Buffer.from(await response.arrayBuffer()), spoken(format ?? "mp3", 4));
      const sent = { ...saying, model: "kokoro", response_format: format ?? "mp3", speed: 1 };
      assert.deepEqual(site.engine.calls.at(-1)?.body, sent);
    }
  });

  it("relays chunks as the engine sends them, and stops the engine when the client leaves", async () => {
    await using site = await open({ chunks: 1000, chunkMs: 20 });
    const response = await site.gateway.post(speech, saying);
    const reader = response.body?.getReader();
    let size = 0;
    // The engine would go on for twenty seconds.
    while (size < 2000) size += (await reader?.read())?.value?.length ?? 2000;
    assert.ok(size < 100_000);
    await reader?.cancel();
    await until("the engine is let go", () => site.engine.calls[0]?.isGone);
  });

  it("refuses a request that the engine would refuse, before it loads the engine", async () => {
    await using gateway = await startGateway({ slots: { tts: slot("tts") } });
    const response = await gateway.post(speech, { ...saying, speed: 5 });
    assert.deepEqual([response.status, (await envelopeOf(response)).error.code], [400, "dispatch.invalid_request"]);
  });

  it("reports the engine's refusal", async () => {
    await using site = await open();
    const response = await site.gateway.post(speech, { ...saying, voice: "nobody" });
    const { code, message } = (await envelopeOf(response)).error;
    assert.deepEqual([response.status, code], [400, "dispatch.rejected"]);
    assert.match(message, /^Voice 'nobody' not found/);
  });

  it("never ends cleanly when the engine ends during the answer", async () => {
    await using site = await open({ fault: "die" });
    const response = await site.gateway.post(speech, saying);
    await assert.rejects(response.arrayBuffer());
  });

  it("has beside it the voices of the slot tts, or of the model asked for", async () => {
    await using site = await open();
    const voices = (query: string): Promise<Response> => fetch(new URL(`/v1/audio/voices${query}`, site.gateway.url));
    for (const query of ["", "?model=tts", "?model="]) {
      const { data } = record(await (await voices(query)).json());
      assert.ok(list(data).some(({ id }) => id === "af_heart"));
    }
    const unknown = await voices("?model=nobody");
    assert.deepEqual([unknown.status, (await envelopeOf(unknown)).error.code], [404, "model.not_found"]);
  });
});
