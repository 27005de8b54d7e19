import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../../src/api/errors.ts";
import { parseImageRequest } from "../../../../src/gateway/media/images/request.ts";
import { thrownBy } from "../../../support/rejection.ts";
import { fc } from "../../../support/fast-check.ts";

function parse(fields: unknown): ReturnType<typeof parseImageRequest> {
  return parseImageRequest(Buffer.from(JSON.stringify(fields)));
}

const least = { model: "img", prompt: "a cat" };

describe("parseImageRequest", () => {
  it("leaves fields that the client omits to the workflow", () => {
    assert.deepEqual(parse(least), {
      model: "img",
      prompt: "a cat",
      negativePrompt: undefined,
      count: 1,
      size: undefined,
      responseFormat: "url",
      seed: undefined,
      steps: undefined,
      cfg: undefined,
    });
  });

  const extensions = { seed: 7, steps: 3, cfg: 1.5, negative_prompt: "dogs" };
  const read = { seed: 7, steps: 3, cfg: 1.5, negativePrompt: "dogs" };
  const ignored = { quality: "high", style: "vivid", user: "u1", background: "auto", seed: null, size: "auto" };
  const rest = { n: 8, size: "64x2048", response_format: "b64_json", seed: 0, cfg: 0 };
  const size = { width: 64, height: 2048 };
  const taken: readonly (readonly [what: string, fields: object, got: object])[] = [
    ["the extension fields at the top level", extensions, read],
    ["them inside extra_body", { extra_body: extensions }, read],
    ["the top level first, field by field", { seed: 1, extra_body: { seed: 2, steps: 9 } }, { seed: 1, steps: 9 }],
    [
      "nothing of other fields of OpenAI's clients, and of null",
      { ...ignored, output_format: "png", stream: false, extra_body: null },
      {},
    ],
    ["the rest", rest, { count: 8, size, responseFormat: "b64_json", seed: 0, cfg: 0 }],
  ];
  for (const [what, fields, got] of taken)
    it(`takes ${what}`, () => assert.deepEqual(parse({ ...least, ...fields }), { ...parse(least), ...got }));

  const refused: readonly (readonly [place: string, ...values: readonly unknown[]])[] = [
    ["prompt", undefined, "  ", 5, "x".repeat(32_001)],
    ["model", 5],
    ["n", 0, 9, 1.5, "2"],
    ["size", "512", "512x", "512 x 512", "56x512", "512x2056", "512x516", 512, "-64x64"],
    ["response_format", "png"],
    ["output_format", "jpeg"],
    ["stream", true],
    ["seed", -1, 2 ** 53],
    ["steps", 0, 151],
    ["cfg", -0.1, 31],
    ["negative_prompt", []],
    ["extra_body", []],
    ["extra_body.steps", "4"],
    ["extra_body.cfg", "7"],
  ];
  for (const [place, ...values] of refused)
    it(`refuses a wrong ${place}`, () => {
      const [field = "", inner] = place.split(".");
      for (const value of values) {
        const fields = { ...least, [field]: inner === undefined ? value : { [inner]: value } };
        const { code, details, message } = thrownBy(() => parse(fields), ApiError);
        assert.deepEqual([code, details?.["path"]], ["dispatch.invalid_request", place.split(".")], String(value));
        assert.equal(message, `${place}: ${String(details?.["message"])}`);
      }
    });

  it("reports a missing model with a code of its own", () => {
    for (const model of [undefined, "", null]) {
      assert.throws(() => parse({ ...least, model }), { code: "dispatch.missing_model", status: 400 });
    }
  });

  it("answers any bytes and any JSON with an envelope or a request", () => {
    const bodies = fc.oneof(
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      fc.json().map((text) => Buffer.from(text)),
      fc
        .record(
          Object.fromEntries(["model", "prompt", "n", "size", "extra_body"].map((name) => [name, fc.jsonValue()])),
          {
            requiredKeys: [],
          },
        )
        .map((fields) => Buffer.from(JSON.stringify(fields))),
    );
    fc.assert(
      fc.property(bodies, (body) => {
        try {
          parseImageRequest(body);
        } catch (error) {
          assert.ok(error instanceof ApiError && error.status === 400);
        }
      }),
    );
  });
});
