import assert from "node:assert/strict";
import { test } from "node:test";
import { specChange } from "../../../src/operator/plan/spec-change.ts";

test("specChange names fields as the manifest spells them, with both values", () => {
  const before = { engine: "llama", model: { default: "m", contextSize: 4096 }, stopSeconds: 30 };
  const after = { engine: "llama", model: { default: "m", contextSize: 8192, parallel: 2 }, stopSeconds: 30 };
  assert.equal(
    specChange(before, after, "/etc/berth/slots/a.toml"),
    "model.context_size 4096 → 8192, model.parallel unset → 2",
  );
  assert.equal(
    specChange(before, after, "/etc/berth/slots/a.yaml"),
    "model.contextSize 4096 → 8192, model.parallel unset → 2",
  );
  assert.equal(specChange(before, { ...before }, undefined), undefined);
});

test("specChange shows no value that may be a secret, and no long values", () => {
  const before = { env: { HF_TOKEN: "hf_old", A: "1" }, args: ["--api-key", "old"], command: ["a"] };
  const after = { env: { HF_TOKEN: "hf_new", A: "1" }, args: ["--api-key", "new"], command: ["b"] };
  assert.equal(specChange(before, after, undefined), "env.HF_TOKEN changed, args changed, command changed");
  assert.equal(specChange({ image: "a" }, { image: "x".repeat(200) }, undefined), "image changed");
  const many = Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((key) => [key, 1]));
  assert.match(specChange({}, many, undefined) ?? "", /^a unset → 1, .* and 2 more$/);
});
