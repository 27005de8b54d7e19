import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { z } from "zod";
import { viewFrom } from "../../../src/gateway/management/view-from.ts";

const conditionSchema = z.strictObject({ lastTransitionTime: z.string() });

describe("a view that is made by its schema", () => {
  it("has the schema's names at every depth", () => {
    const part = z.strictObject({ need_bytes: z.number() });
    const view = viewFrom(
      z.strictObject({ spec_hash: z.string(), first_token_ms: z.array(part), last_fit: part.nullable() }),
    );
    assert.deepEqual(view({ specHash: "a", firstTokenMs: [{ needBytes: 1 }], lastFit: { needBytes: 2 } }), {
      spec_hash: "a",
      first_token_ms: [{ need_bytes: 1 }],
      last_fit: { need_bytes: 2 },
    });
  });

  it("has null where the source has nothing, and leaves out what the schema does not have", () => {
    const settings = z.strictObject({ gpu_layers: z.number().optional() }).optional();
    const view = viewFrom(z.strictObject({ image_digest: z.string().nullable(), settings }));
    const source = { imageDigest: undefined, settings: { gpuLayers: 3 }, workloadHash: "secret" };
    assert.deepEqual(view(source), { image_digest: null, settings: { gpu_layers: 3 } });
    const nothing = { imageDigest: undefined, settings: undefined };
    assert.equal(JSON.stringify(view(nothing)), '{"image_digest":null}');
    // @ts-expect-error The source names each field of its view: one that was renamed would be null for ever.
    assert.equal(JSON.stringify(view({ digest: "a", settings: undefined })), '{"image_digest":null}');
  });

  it("keeps the keys of records, and of schemas in camelCase", () => {
    const decisions = z.record(z.string(), z.strictObject({ value: z.string() }));
    const view = viewFrom(z.strictObject({ decisions, conditions: z.array(conditionSchema) }));
    const source = {
      decisions: { contextSize: { value: "1" }, a_b: { value: "2" } },
      conditions: [{ lastTransitionTime: "T" }],
    };
    assert.deepEqual(view(source), source);
  });
});
