import assert from "node:assert/strict";
import { describe, it } from "node:test";
import OpenAI from "openai";
import { transcriptionAnswers } from "../../../../src/gateway/media/audio/transcription-answer.ts";
import { eventsOf } from "../../../../src/gateway/media/audio/transcription-stream.ts";
import { heardIn, startWhisperDouble } from "../../../doubles/whisper.ts";
import { envelopeOf } from "../../../support/envelope.ts";
import type { FormPart } from "../../../support/form.ts";
import { startGateway } from "../../../support/gateway.ts";
import { json, scriptedEngine } from "../../../support/scripted-engine.ts";
import { field, fileOf, model, slot, transcriptions, upload, wavOf } from "./gateway.ts";

const wav = wavOf(1000);
const file = fileOf(wav);
const stream = (value: string): FormPart => field("stream", value);

describe("a transcription that the client wants as events", () => {
  it("is sent as events although the engine answers with a whole text", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const client = new OpenAI({ apiKey: "x", baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    const text = heardIn(wav);
    const asked = { model: "stt", file: new File([new Uint8Array(wav)], "a.wav"), stream: true } as const;
    assert.deepEqual(await Array.fromAsync(await client.audio.transcriptions.create(asked)), [
      { type: "transcript.text.delta", delta: text },
      { type: "transcript.text.done", text },
    ]);
    const raw = await upload(gateway, [model, file, stream("True")]);
    assert.equal(raw.headers.get("content-type"), "text/event-stream");
    assert.match(await raw.text(), /^data: .*\n\ndata: .*\n\ndata: \[DONE\]\n\n$/);
    const whole = await upload(gateway, [model, file, stream("false")]);
    assert.deepEqual(await whole.json(), { text });
    const format = (value: string): FormPart => field("response_format", value);
    for (const parts of [
      [stream("perhaps")],
      [stream("true"), format("srt")],
      [format("verbose_json"), stream("true")],
    ]) {
      const { error } = await envelopeOf(await upload(gateway, [model, ...parts, file]));
      assert.equal(error.code, "dispatch.invalid_request");
      assert.match(error.message, /stream: must be true or false|response_format: must be json where stream is true/);
    }
  });

  it("relays the engine's own events where it sends some, and an error where they break off", async () => {
    const begun = 'data: {"type":"transcript.text.delta","delta":"hi"}\n\n';
    const over = 'data: {"type":"transcript.text.done","text":"hi"}\n\n';
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    for (const [sent, rest] of [
      [`${begun}data: [DONE]\n\n`, /^$/],
      [begun + over, /^$/],
      [begun, /^data: \{"error":\{"code":"dispatch\.upstream_failed"/],
    ] as const) {
      engine.answer((response) => void response.writeHead(200, { "content-type": "text/event-stream" }).end(sent));
      const text = await (await upload(gateway, [model, stream("1"), file])).text();
      assert.ok(text.startsWith(sent));
      assert.match(text.slice(sent.length), rest);
    }
  });

  it("passes unchanged with all its words where it took hours, and becomes events", () => {
    const words = Array.from({ length: 20_000 }, (_, at) => ({ word: `w${at}`, start: at, end: at + 0.5 }));
    const answer = Buffer.from(JSON.stringify({ words, text: "all of it", usage: { type: "duration", seconds: 9 } }));
    const answers = transcriptionAnswers(new Map());
    assert.equal(answers.answer(answer), answer);
    assert.match(eventsOf(answer).toString(), /"type":"transcript.text.done","text":"all of it","usage":\{"type":"dur/);
    assert.throws(() => answers.answer(answer.subarray(0, -1)), { code: "dispatch.upstream_failed" });
  });
});

describe("POST /v1/audio/translations", () => {
  const translations = "/v1/audio/translations";

  it("is relayed to an engine that has the route, also where it knows no such model", async () => {
    await using engine = await scriptedEngine((response) => json(response, { text: "hello" }));
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const response = await upload(gateway, [model, file], translations);
    assert.deepEqual([await response.json(), engine.seen[0]?.path], [{ text: "hello" }, translations]);
    engine.answer((refusal) => json(refusal, { error: { message: "no such model" } }, 404));
    const refused = await upload(gateway, [model, file], translations);
    assert.deepEqual([refused.status, (await envelopeOf(refused)).error.code], [404, "dispatch.rejected"]);
  });

  it("is 501 where the engine has no such route", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const response = await upload(gateway, [model, file], translations);
    const { error } = await envelopeOf(response);
    const seen = [response.status, error.code, response.headers.get("x-should-retry")];
    assert.deepEqual(seen, [501, "system.not_implemented", "false"]);
    assert.match(error.message, /^slot stt has no \/v1\/audio\/translations/);
  });
});
