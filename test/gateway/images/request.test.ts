import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { parseImageRequest } from "../../../src/gateway/images/request.ts";
import { fc } from "../../support/fast-check.ts";

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
  it("takes the extension fields at the top level", () => {
    assert.deepEqual(parse({ ...least, ...extensions }), { ...parse(least), ...read });
  });
  it("takes them inside extra_body", () => {
    assert.deepEqual(parse({ ...least, extra_body: extensions }), { ...parse(least), ...read });
  });
  it("prefers the top level, field by field", () => {
    assert.deepEqual(parse({ ...least, seed: 1, extra_body: { seed: 2, steps: 9 } }), {
      ...parse(least),
      seed: 1,
      steps: 9,
    });
  });
  it("ignores other fields of OpenAI's clients, and null", () => {
    const beside = { quality: "high", style: "vivid", user: "u1", background: "auto", seed: null, size: "auto" };
    assert.deepEqual(
      parse({ ...least, ...beside, output_format: "png", stream: false, extra_body: null }),
      parse(least),
    );
  });
  it("reads the rest", () => {
    const found = parse({ ...least, n: 8, size: "64x2048", response_format: "b64_json", seed: 0, cfg: 0 });
    assert.deepEqual(found, {
      ...parse(least),
      count: 8,
      size: { width: 64, height: 2048 },
      responseFormat: "b64_json",
      seed: 0,
      cfg: 0,
    });
  });

  const refused: readonly (readonly [fields: object, path: readonly string[]])[] = [
    [{ prompt: undefined }, ["prompt"]],
    [{ prompt: "  " }, ["prompt"]],
    [{ prompt: 5 }, ["prompt"]],
    [{ prompt: "x".repeat(32_001) }, ["prompt"]],
    [{ model: 5 }, ["model"]],
    [{ n: 0 }, ["n"]],
    [{ n: 9 }, ["n"]],
    [{ n: 1.5 }, ["n"]],
    [{ n: "2" }, ["n"]],
    [{ size: "512" }, ["size"]],
    [{ size: "512x" }, ["size"]],
    [{ size: "512 x 512" }, ["size"]],
    [{ size: "56x512" }, ["size"]],
    [{ size: "512x2056" }, ["size"]],
    [{ size: "512x516" }, ["size"]],
    [{ size: 512 }, ["size"]],
    [{ size: "-64x64" }, ["size"]],
    [{ response_format: "png" }, ["response_format"]],
    [{ output_format: "jpeg" }, ["output_format"]],
    [{ stream: true }, ["stream"]],
    [{ seed: -1 }, ["seed"]],
    [{ seed: 2 ** 53 }, ["seed"]],
    [{ steps: 0 }, ["steps"]],
    [{ steps: 151 }, ["steps"]],
    [{ cfg: -0.1 }, ["cfg"]],
    [{ cfg: 31 }, ["cfg"]],
    [{ negative_prompt: [] }, ["negative_prompt"]],
    [{ extra_body: { steps: "4" } }, ["extra_body", "steps"]],
    [{ extra_body: { cfg: "7" } }, ["extra_body", "cfg"]],
    [{ extra_body: [] }, ["extra_body"]],
  ];
  for (const [fields, path] of refused) {
    it(`refuses ${JSON.stringify(fields).slice(0, 60)}, naming ${path.join(".")}`, () => {
      assert.throws(
        () => parse({ ...least, ...fields }),
        (error) => {
          assert.ok(error instanceof ApiError);
          assert.equal(error.status, 400);
          assert.equal(error.code, "dispatch.invalid_request");
          assert.deepEqual(error.details?.["path"], path);
          assert.equal(error.message, `${path.join(".")}: ${String(error.details?.["message"])}`);
          return true;
        },
      );
    });
  }

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
          {
            model: fc.jsonValue(),
            prompt: fc.jsonValue(),
            n: fc.jsonValue(),
            size: fc.jsonValue(),
            extra_body: fc.jsonValue(),
          },
          { requiredKeys: [] },
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
