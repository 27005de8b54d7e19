import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { speechAnswers, speechRequest, voicesAnswers } from "../../../src/gateway/audio/speech.ts";
import { record } from "../../support/openai.ts";
import { thrownBy } from "../../support/rejection.ts";

const least = { model: "tts", input: "hello", voice: "af_heart" };

function bytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function read(body: Buffer): unknown {
  return JSON.parse(body.toString());
}

describe("speechRequest", () => {
  it("sets the fields that the client omits", () => {
    assert.deepEqual(read(speechRequest(bytes(least))), { ...least, response_format: "mp3", speed: 1 });
  });

  for (const format of ["mp3", "wav", "opus", "flac", "pcm"])
    it(`keeps the format ${format}, and fields that only some engines know`, () => {
      const fields = { ...least, response_format: format, speed: 0.25, lang_code: "a", instructions: "softly" };
      assert.deepEqual(read(speechRequest(bytes(fields))), fields);
    });

  const refused: readonly (readonly [fields: object, field: string])[] = [
    [{ input: undefined }, "input"],
    [{ input: " \n" }, "input"],
    [{ input: ["hello"] }, "input"],
    [{ voice: undefined }, "voice"],
    [{ voice: "" }, "voice"],
    [{ voice: { id: "v" } }, "voice"],
    [{ voice: "x".repeat(501) }, "voice"],
    [{ response_format: "aac" }, "response_format"],
    [{ response_format: "toString" }, "response_format"],
    [{ response_format: 1 }, "response_format"],
    [{ speed: 0.24 }, "speed"],
    [{ speed: 4.01 }, "speed"],
    [{ speed: "1" }, "speed"],
    [{ stream_format: "sse" }, "stream_format"],
  ];
  for (const [fields, field] of refused)
    it(`refuses ${JSON.stringify(fields).slice(0, 50)}, naming ${field}`, () => {
      const { code, details } = thrownBy(() => speechRequest(bytes({ ...least, ...fields })), ApiError);
      assert.deepEqual([code, details?.["path"]], ["dispatch.invalid_request", [field]]);
    });

  for (const body of ["", "hello", "[]", "null", '"x"'])
    it(`refuses ${JSON.stringify(body)}`, () =>
      assert.throws(() => speechRequest(Buffer.from(body)), { code: "dispatch.invalid_request" }));
});

it("JSON in place of audio is a failure of the engine", () => {
  for (const [body, message] of [
    ['{"status":"ok"}', /without audio|no audio/],
    ['{"detail":"oops"}', /the engine failed: oops/],
    ["no json", /not JSON/],
  ] as const)
    assert.throws(() => speechAnswers.answer(Buffer.from(body)), { code: "dispatch.upstream_failed", message });
});

describe("voicesAnswers", () => {
  const voices = [
    ["af_heart", "en-US"],
    ["am_adam", "en-US"],
    ["bf_emma", "en-GB"],
    ["ef_dora", "es"],
    ["jf_alpha", "ja"],
    ["zf_xiaobei", "zh"],
    // It follows another rule.
    ["alloy", undefined],
    ["x_y", undefined],
  ] as const;
  for (const [what, listed] of [
    ["with names", voices.map(([id]) => ({ id, name: id }))],
    ["as older versions name them", voices.map(([id]) => id)],
  ] as const)
    it(`lists Kokoro's voices ${what}, with the languages of their ids`, () => {
      assert.deepEqual(read(voicesAnswers.answer(bytes({ voices: [...listed, 5] }))), {
        object: "list",
        data: voices.map(([id, language]) => ({
          id,
          object: "voice",
          name: id,
          ...(language === undefined ? {} : { language }),
        })),
        voices: voices.map(([id]) => ({ id, name: id })),
      });
    });

  it("keeps a voice's own name, and takes an answer without voices for a failure of the engine", () => {
    const answer = voicesAnswers.answer(bytes({ voices: [{ id: "x_y", name: "Ix" }] }));
    assert.deepEqual(record(read(answer))["data"], [{ id: "x_y", object: "voice", name: "Ix" }]);
    for (const body of ["{}", "5", "nonsense"])
      assert.throws(() => voicesAnswers.answer(Buffer.from(body)), { code: "dispatch.upstream_failed" });
  });
});
