import assert from "node:assert/strict";
import { readdir, readlink } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isRecord } from "../../../src/lib/record.ts";
import { startKokoroDouble, spoken } from "../../doubles/kokoro.ts";
import { heardIn, startWhisperDouble } from "../../doubles/whisper.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { formBody, type FormPart } from "../../support/form.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway, type SlotSketch, type TestGateway } from "../../support/gateway.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { later } from "../../support/later.ts";

const transcriptions = "/v1/audio/transcriptions";
const speech = "/v1/audio/speech";
const wav = Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(1_000_000, 3)]);
const model: FormPart = { name: "model", value: "stt" };
const file: FormPart = { name: "file", filename: "a.wav", value: wav };
const saying = { model: "tts", input: "hello", voice: "af_heart" };

function slot(engine: "stt" | "tts", port?: number): SlotSketch {
  return {
    ...(port === undefined ? {} : { port }),
    spec: { engine, model: { default: engine } },
    status: {
      capabilities: [engine === "stt" ? "transcription" : "speech"],
      model: { ref: engine, origin: "spec", served: "kokoro" },
    },
  };
}

function upload(gateway: TestGateway, parts: readonly FormPart[], init: RequestInit = {}): Promise<Response> {
  return fetch(new URL(transcriptions, gateway.url), {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=b" },
    body: new Uint8Array(formBody("b", parts)),
    ...init,
  });
}

describe(`POST ${transcriptions}`, () => {
  for (const parts of [
    [model, file],
    [file, model],
  ]) {
    it(`reaches the slot that the form names: ${parts.map(({ name }) => name).join(", ")}`, async () => {
      await using engine = await startWhisperDouble({ path: transcriptions });
      await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
      const response = await upload(gateway, parts);
      assert.equal(response.status, 200);
      assert.deepEqual(await response.json(), { text: heardIn(wav) });
      assert.deepEqual(engine.calls[0]?.fields, { model: "kokoro" });
      assert.equal(await gateway.metric(`berth_requests_total{route="${transcriptions}",slot="stt",code="200"}`), 1);
    });

    it(`is held while the slot is cold: ${parts.map(({ name }) => name).join(", ")}`, async () => {
      await using engine = await startWhisperDouble({ path: transcriptions });
      await using gateway = await startGateway({ slots: { stt: slot("stt") } });
      const answered = later(upload(gateway, parts));
      await until("it is demand", () => gateway.demand("stt")?.held === 1);
      await gateway.publish("stt", slot("stt", engine.port));
      assert.deepEqual(await (await answered).json(), { text: heardIn(wav) });
    });
  }

  it("is refused at once where a field is wrong, although the slot is cold", async () => {
    await using gateway = await startGateway({ slots: { stt: slot("stt") } });
    const response = await upload(gateway, [model, { name: "response_format", value: "xml" }, file]);
    assert.equal(response.status, 400);
    assert.equal((await envelopeOf(response)).error.code, "dispatch.invalid_request");
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

  for (const isWhole of [true, false]) {
    it(`is relayed as a stream by an engine that streams${isWhole ? "" : ", and ends with an error when that breaks off"}`, async () => {
      const events = [
        { type: "transcript.text.delta", delta: "hi" },
        { type: "transcript.text.done", text: "hi" },
      ];
      const sent = events
        .slice(0, isWhole ? 2 : 1)
        .map((event) => `data: ${JSON.stringify(event)}\n\n`)
        .join("");
      await using engine = await scriptedEngine((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" }).end(sent);
      });
      await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
      const response = await upload(gateway, [model, { name: "stream", value: "true" }, file]);
      const text = await response.text();
      assert.ok(text.startsWith(sent));
      assert.match(text.slice(sent.length), isWhole ? /^$/ : /^data: \{"error":\{"code":"dispatch\.upstream_failed"/);
    });
  }

  const wrong: readonly (readonly [what: string, parts: readonly FormPart[], status: number, code: string])[] = [
    ["an unknown model", [{ name: "model", value: "nobody" }, file], 404, "model.not_found"],
    ["a slot that cannot hear", [{ name: "model", value: "tts" }, file], 400, "dispatch.capability_mismatch"],
    ["no model", [file], 400, "dispatch.missing_model"],
    ["what is no audio", [model, { ...file, value: "hello" }], 415, "dispatch.unsupported_media_type"],
  ];
  for (const [what, parts, status, code] of wrong) {
    it(`refuses ${what} with ${status} ${code}`, async () => {
      await using engine = await startWhisperDouble({ path: transcriptions });
      await using gateway = await startGateway({
        slots: { stt: slot("stt", engine.port), tts: slot("tts", engine.port) },
      });
      const response = await upload(gateway, parts);
      assert.equal(response.status, status);
      assert.equal((await envelopeOf(response)).error.code, code);
    });
  }

  it("leaves no file open, however it ends", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const forms = [
      [file, model],
      [file, { name: "model", value: "nobody" }],
      [file, { name: "model", value: "primary" }],
      [file, { name: "response_format", value: "xml" }],
      [file, file],
      [file],
    ];
    for (const parts of forms) await (await upload(gateway, parts)).arrayBuffer();
    await until("all are closed", async () => {
      const fds = await readdir("/proc/self/fd");
      const targets = await Promise.all(fds.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
      return !targets.some((target) => target.startsWith(gateway.stateDir) && target.includes(".upload."));
    });
    assert.deepEqual(await readdir(join(gateway.stateDir, "spool")), []);
  });

  it("frees the engine when its client leaves before the answer", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions, fault: "hang" });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const leaving = new AbortController();
    const answered = later(upload(gateway, [model, file], { signal: leaving.signal }));
    await until("the engine has it", () => engine.calls[0]?.isWhole);
    leaving.abort();
    await assert.rejects(answered);
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

describe(`POST ${speech}`, () => {
  const formats = { mp3: "audio/mpeg", wav: "audio/wav", opus: "audio/opus", flac: "audio/flac", pcm: "audio/pcm" };
  for (const [format, type] of Object.entries(formats)) {
    it(`answers ${format} as ${type}`, async () => {
      await using engine = await startKokoroDouble();
      await using gateway = await startGateway({ slots: { tts: slot("tts", engine.port) } });
      const response = await gateway.post(speech, {
        ...saying,
        ...(format === "mp3" ? {} : { response_format: format }),
      });
      assert.equal(response.status, 200);
      assert.equal(response.headers.get("content-type"), type);
      assert.deepEqual(Buffer.from(await response.arrayBuffer()), spoken(format, 4));
      const [call] = engine.calls;
      assert.deepEqual(call?.body, { ...saying, model: "kokoro", response_format: format, speed: 1 });
    });
  }

  it("relays chunks as the engine sends them", async () => {
    await using engine = await startKokoroDouble({ chunks: 1000, chunkMs: 20 });
    await using gateway = await startGateway({ slots: { tts: slot("tts", engine.port) } });
    const response = await gateway.post(speech, saying);
    const reader = response.body?.getReader();
    let size = 0;
    // The engine would go on for twenty seconds.
    while (size < 2000) size += (await reader?.read())?.value?.length ?? 2000;
    assert.ok(size < 100_000);
    await reader?.cancel();
    await until("the engine is let go", () => engine.calls[0]?.isGone);
  });

  it("refuses a request that the engine would refuse, before it loads the engine", async () => {
    await using gateway = await startGateway({ slots: { tts: slot("tts") } });
    for (const fields of [{ speed: 5 }, { input: "" }, { voice: undefined }, { response_format: "aac" }]) {
      const response = await gateway.post(speech, { ...saying, ...fields });
      assert.equal(response.status, 400);
      assert.equal((await envelopeOf(response)).error.code, "dispatch.invalid_request");
    }
  });

  it("reports the engine's refusal", async () => {
    await using engine = await startKokoroDouble();
    await using gateway = await startGateway({ slots: { tts: slot("tts", engine.port) } });
    const response = await gateway.post(speech, { ...saying, voice: "nobody" });
    assert.equal(response.status, 400);
    const { error } = await envelopeOf(response);
    assert.equal(error.code, "dispatch.rejected");
    assert.match(error.message, /^Voice 'nobody' not found/);
  });

  it("never ends cleanly when the engine ends during the answer", async () => {
    await using engine = await startKokoroDouble({ fault: "die" });
    await using gateway = await startGateway({ slots: { tts: slot("tts", engine.port) } });
    const response = await gateway.post(speech, saying);
    await assert.rejects(response.arrayBuffer());
  });

  it("stops the engine when the client leaves", async () => {
    await using engine = await startKokoroDouble({ chunks: 1000, chunkMs: 20 });
    await using gateway = await startGateway({ slots: { tts: slot("tts", engine.port) } });
    const leaving = new AbortController();
    const response = await gateway.post(speech, saying, { signal: leaving.signal });
    assert.equal(response.status, 200);
    leaving.abort();
    await until("the engine is let go", () => engine.calls[0]?.isGone);
  });
});

describe("GET /v1/audio/voices", () => {
  it("lists those of the slot tts, or of the model asked for", async () => {
    await using engine = await startKokoroDouble();
    await using gateway = await startGateway({ slots: { tts: slot("tts", engine.port) } });
    for (const query of ["", "?model=tts", "?model="]) {
      const body: unknown = await (await fetch(new URL(`/v1/audio/voices${query}`, gateway.url))).json();
      assert.ok(
        isRecord(body) &&
          Array.isArray(body["data"]) &&
          body["data"].some((voice) => isRecord(voice) && voice["id"] === "af_heart"),
      );
    }
    const unknown = await fetch(new URL("/v1/audio/voices?model=nobody", gateway.url));
    assert.equal(unknown.status, 404);
    assert.equal((await envelopeOf(unknown)).error.code, "model.not_found");
  });
});
