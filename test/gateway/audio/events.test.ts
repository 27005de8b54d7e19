import assert from "node:assert/strict";
import { describe, it } from "node:test";
import OpenAI from "openai";
import { heardIn, startWhisperDouble } from "../../doubles/whisper.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { formBody, type FormPart } from "../../support/form.ts";
import { startGateway, type SlotSketch, type TestGateway } from "../../support/gateway.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";

const transcriptions = "/v1/audio/transcriptions";
const translations = "/v1/audio/translations";
const wav = Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(1000, 3)]);
const model: FormPart = { name: "model", value: "stt" };
const file: FormPart = { name: "file", filename: "a.wav", value: wav };

function stt(port: number): { stt: SlotSketch } {
  const spec = { engine: "stt" as const, model: { default: "stt" } };
  return { stt: { port, spec, status: { capabilities: ["transcription"] } } };
}

function upload(gateway: TestGateway, parts: readonly FormPart[], path = transcriptions): Promise<Response> {
  return fetch(new URL(path, gateway.url), {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=b" },
    body: new Uint8Array(formBody("b", parts)),
  });
}

describe("a transcription that the client wants as events", () => {
  it("is sent as events although the engine answers with a whole text", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: stt(engine.port) });
    const client = new OpenAI({ apiKey: "x", baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    const text = heardIn(wav);
    const asked = { model: "stt", file: new File([new Uint8Array(wav)], "a.wav"), stream: true } as const;
    const events: unknown[] = [];
    for await (const event of await client.audio.transcriptions.create(asked)) events.push(event);
    assert.deepEqual(events, [
      { type: "transcript.text.delta", delta: text },
      { type: "transcript.text.done", text },
    ]);
    const raw = await upload(gateway, [model, file, { name: "stream", value: "True" }]);
    assert.equal(raw.headers.get("content-type"), "text/event-stream");
    assert.match(await raw.text(), /^data: .*\n\ndata: .*\n\ndata: \[DONE\]\n\n$/);
    const whole = await upload(gateway, [model, file, { name: "stream", value: "false" }]);
    assert.deepEqual(await whole.json(), { text });
  });

  it("relays the engine's own events where it sends some", async () => {
    const told = 'data: {"type":"transcript.text.delta","delta":"hi"}\n\ndata: [DONE]\n\n';
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).end(told);
    });
    await using gateway = await startGateway({ slots: stt(engine.port) });
    const response = await upload(gateway, [model, file, { name: "stream", value: "1" }]);
    assert.equal(await response.text(), told);
  });

  for (const parts of [
    [{ name: "stream", value: "perhaps" }],
    [
      { name: "stream", value: "true" },
      { name: "response_format", value: "srt" },
    ],
    [
      { name: "response_format", value: "verbose_json" },
      { name: "stream", value: "true" },
    ],
  ]) {
    it(`is refused where it is not possible: ${parts.map(({ value }) => value).join(", ")}`, async () => {
      await using engine = await startWhisperDouble({ path: transcriptions });
      await using gateway = await startGateway({ slots: stt(engine.port) });
      const response = await upload(gateway, [model, ...parts, file]);
      assert.equal(response.status, 400);
      const { error } = await envelopeOf(response);
      assert.match(error.message, /stream: must be true or false|response_format: must be json where stream is true/);
    });
  }
});

describe(`POST ${translations}`, () => {
  it("is relayed to an engine that has the route", async () => {
    await using engine = await scriptedEngine((response) => json(response, { text: "hello" }));
    await using gateway = await startGateway({ slots: stt(engine.port) });
    const response = await upload(gateway, [model, file], translations);
    assert.deepEqual([await response.json(), engine.seen[0]?.path], [{ text: "hello" }, translations]);
  });

  it("is 501 where the engine has no such route", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: stt(engine.port) });
    const response = await upload(gateway, [model, file], translations);
    const { error } = await envelopeOf(response);
    assert.deepEqual([response.status, error.code], [501, "system.not_implemented"]);
    assert.equal(response.headers.get("x-should-retry"), "false");
    assert.match(error.message, /^slot stt has no \/v1\/audio\/translations/);
  });

  it("reports an unknown model as unknown", async () => {
    await using engine = await scriptedEngine((response) =>
      json(response, { error: { message: "no such model" } }, 404),
    );
    await using gateway = await startGateway({ slots: stt(engine.port) });
    const response = await upload(gateway, [model, file], translations);
    assert.deepEqual([response.status, (await envelopeOf(response)).error.code], [404, "dispatch.rejected"]);
  });
});
