import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { speechAnswers, voicesAnswers } from "../../../../src/gateway/media/audio/speech.ts";
import { spoken, startKokoroDouble, type KokoroDoubleOptions } from "../../../doubles/kokoro.ts";
import { envelopeOf } from "../../../support/envelope.ts";
import { startGateway } from "../../../support/gateway.ts";
import { list, record } from "../../../support/openai.ts";
import { until } from "../../../support/until.ts";
import { slot } from "./gateway.ts";

const speech = "/v1/audio/speech";
const saying = { model: "tts", input: "hello", voice: "af_heart" };
const open = async (double: KokoroDoubleOptions = {}) => {
  await using stack = new AsyncDisposableStack();
  const engine = stack.use(await startKokoroDouble(double));
  const gateway = stack.use(await startGateway({ slots: { tts: slot("tts", engine.port) } }));
  const owned = stack.move();
  return { engine, gateway, [Symbol.asyncDispose]: () => owned.disposeAsync() };
};

describe(`POST ${speech}`, () => {
  it("answers each format with its type, and sends the engine all fields and the omitted ones", async () => {
    await using site = await open();
    const more = { speed: 0.25, lang_code: "a", instructions: "softly" };
    for (const [fields, type] of [
      [{}, "audio/mpeg"],
      [{ response_format: "mp3", ...more }, "audio/mpeg"],
      [{ response_format: "wav" }, "audio/wav"],
      [{ response_format: "opus" }, "audio/opus"],
      [{ response_format: "flac" }, "audio/flac"],
      [{ response_format: "pcm" }, "audio/pcm"],
    ] as const) {
      const response = await site.gateway.post(speech, { ...saying, ...fields });
      assert.deepEqual([response.status, response.headers.get("content-type")], [200, type]);
      const sent = { ...saying, model: "kokoro", response_format: "mp3", speed: 1, ...fields };
      assert.deepEqual(site.engine.calls.at(-1)?.body, sent);
      assert.deepEqual(Buffer.from(await response.arrayBuffer()), spoken(sent.response_format, 4));
    }
  });

  const refused: readonly (readonly [field: string, ...values: readonly unknown[]])[] = [
    ["input", undefined, " \n", ["hello"]],
    ["voice", undefined, "", { id: "v" }, "x".repeat(501)],
    ["response_format", "aac", "toString", 1],
    ["speed", 0.24, 4.01, "1"],
    ["stream_format", "sse"],
  ];
  it("refuses a request that the engine would refuse, before it loads the engine", async () => {
    await using gateway = await startGateway({ slots: { tts: slot("tts") } });
    const refusedAt = async (body: unknown): Promise<unknown> => {
      const response = await gateway.post(speech, body);
      const { code, details } = (await envelopeOf(response)).error;
      assert.deepEqual([response.status, code], [400, "dispatch.invalid_request"]);
      return details?.["path"];
    };
    for (const [field, ...values] of refused)
      for (const value of values) assert.deepEqual(await refusedAt({ ...saying, [field]: value }), [field]);
    const many = '{"model":"tts","input":"a","voice":"b","speed":1310456789012345678}';
    assert.deepEqual(await refusedAt(many), ["speed"], "no double holds it");
    for (const body of ["hello", "[]"]) assert.equal(await refusedAt(body), undefined);
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

  it("reports the engine's refusal, and never ends cleanly when the engine ends during the answer", async () => {
    await using site = await open({ fault: "die" });
    const refusal = await site.gateway.post(speech, { ...saying, voice: "nobody" });
    const { code, message } = (await envelopeOf(refusal)).error;
    assert.deepEqual([refusal.status, code], [400, "dispatch.rejected"]);
    assert.match(message, /^Voice 'nobody' not found/);
    const response = await site.gateway.post(speech, saying);
    await assert.rejects(response.arrayBuffer());
  });

  it("takes JSON in place of audio for a failure of the engine", () => {
    for (const [body, message] of [
      ['{"status":"ok"}', /without audio|no audio/],
      ['{"detail":"oops"}', /the answer is a failure: oops/],
      ["no json", /not JSON/],
    ] as const)
      assert.throws(() => speechAnswers.answer(Buffer.from(body)), { code: "dispatch.upstream_failed", message });
  });
});

describe("GET /v1/audio/voices", () => {
  it("lists the voices of the slot tts, or of the model asked for", async () => {
    await using site = await open();
    const voices = (query: string): Promise<Response> => fetch(new URL(`/v1/audio/voices${query}`, site.gateway.url));
    for (const query of ["", "?model=tts", "?model="]) {
      const { data } = record(await (await voices(query)).json());
      assert.ok(list(data).some(({ id }) => id === "af_heart"));
    }
    const unknown = await voices("?model=nobody");
    assert.deepEqual([unknown.status, (await envelopeOf(unknown)).error.code], [404, "model.not_found"]);
  });

  const read = (voices: unknown): unknown =>
    JSON.parse(voicesAnswers.answer(Buffer.from(JSON.stringify({ voices }))).toString());
  const languages = { af_heart: "en-US", bf_emma: "en-GB", ef_dora: "es", jf_alpha: "ja", zf_xiaobei: "zh" };
  // They follow another rule.
  const others = ["alloy", "x_y"];

  it("has the languages of Kokoro's ids, in the form of any version of its server, and a voice's own name", () => {
    const ids = [...Object.keys(languages), ...others];
    const named = ids.map((id) => ({ id, name: id }));
    const data = [
      ...Object.entries(languages).map(([id, language]) => ({ id, object: "voice", name: id, language })),
      ...others.map((id) => ({ id, object: "voice", name: id })),
    ];
    for (const listed of [named, ids]) assert.deepEqual(read([...listed, 5]), { object: "list", data, voices: named });
    assert.deepEqual(record(read([{ id: "x_y", name: "Ix" }]))["data"], [{ id: "x_y", object: "voice", name: "Ix" }]);
    for (const body of ["{}", "5", "nonsense"])
      assert.throws(() => voicesAnswers.answer(Buffer.from(body)), { code: "dispatch.upstream_failed" });
  });
});
