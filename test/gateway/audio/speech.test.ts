import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { speechAnswers, speechRequest, voicesAnswers } from "../../../src/gateway/audio/speech.ts";
import { engineRefusal } from "../../../src/gateway/relay/engine-failure.ts";
import { thrownBy } from "../../support/rejection.ts";
import { kokoroVoices, startKokoroDouble, type KokoroDoubleOptions } from "../../doubles/kokoro.ts";

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

/** What the double answers to a request as the gateway would send it. */
async function ask(options: KokoroDoubleOptions, fields: object): Promise<{ status: number; body: Buffer }> {
  await using double = await startKokoroDouble(options);
  const response = await fetch(`http://127.0.0.1:${double.port}/v1/audio/speech`, {
    method: "POST",
    body: bytes(fields).toString(),
  });
  return { status: response.status, body: Buffer.from(await response.arrayBuffer()) };
}

describe("speechAnswers", () => {
  it("reports a refusal of Kokoro with its message", async () => {
    const { status, body } = await ask({}, { ...least, model: "kokoro", voice: "nobody" });
    const failure = engineRefusal(status, body, undefined);
    assert.equal(failure.code, "dispatch.rejected");
    assert.equal(failure.status, 400);
    assert.match(failure.message, /^Voice 'nobody' not found/);
  });

  it("reports the findings of its validation, by field", async () => {
    const { status, body } = await ask({}, { ...least, model: "kokoro", speed: 9 });
    const failure = engineRefusal(status, body, undefined);
    assert.equal(failure.status, 422);
    assert.equal(failure.message, "speed: Input should be less than or equal to 4");
  });

  it("is not quoted where it failed, or says nothing", async () => {
    const failed = await ask({ fault: "fail" }, { ...least, model: "kokoro" });
    assert.equal(failed.status, 500);
    assert.equal(engineRefusal(failed.status, failed.body, undefined).code, "dispatch.upstream_failed");
    for (const body of ["<html>", "{}", '{"detail":[]}', '{"detail":{}}', "[]"])
      assert.equal(engineRefusal(400, Buffer.from(body), undefined).message, "the engine answered 400", body);
  });

  it("reports JSON in place of audio as a failure of the engine", async () => {
    const { status, body } = await ask({ fault: "garbage" }, { ...least, model: "kokoro" });
    assert.equal(status, 200);
    assert.throws(() => speechAnswers.answer(body), {
      code: "dispatch.upstream_failed",
      message: /without audio|no audio/,
    });
    assert.throws(() => speechAnswers.answer(Buffer.from("no json")), { code: "dispatch.upstream_failed" });
  });
});

describe("voicesAnswers", () => {
  for (const query of ["", "?legacy=true"]) {
    it(`lists Kokoro's voices${query === "" ? "" : ", also as older versions name them"}`, async () => {
      await using double = await startKokoroDouble();
      const response = await fetch(`http://127.0.0.1:${double.port}/v1/audio/voices${query}`);
      const answer = read(voicesAnswers.answer(Buffer.from(await response.arrayBuffer())));
      const languages = ["en-US", "en-US", "en-US", "en-GB", "es", "ja", "zh"];
      assert.deepEqual(answer, {
        object: "list",
        data: kokoroVoices.map((id, index) => ({ id, object: "voice", name: id, language: languages[index] })),
        voices: kokoroVoices.map((id) => ({ id, name: id })),
      });
    });
  }

  it("knows no language of a name that follows another rule", () => {
    const answer = voicesAnswers.answer(bytes({ voices: ["alloy", { id: "x_y", name: "Ix" }, 5] }));
    assert.deepEqual(read(answer), {
      object: "list",
      data: [
        { id: "alloy", object: "voice", name: "alloy" },
        { id: "x_y", object: "voice", name: "Ix" },
      ],
      voices: [
        { id: "alloy", name: "alloy" },
        { id: "x_y", name: "Ix" },
      ],
    });
  });

  it("reports an answer without voices as a failure of the engine", () => {
    for (const body of ["{}", "5", "nonsense"])
      assert.throws(() => voicesAnswers.answer(Buffer.from(body)), { code: "dispatch.upstream_failed" });
  });
});
