import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { modelRules, modelSpecSchema } from "../../src/api/model.ts";

const sha256 = "a".repeat(64);

describe("model", () => {
  it("is complete with a source alone", () => {
    assert.deepEqual(modelSpecSchema.parse({ source: "file:///models/a.gguf" }), {
      source: "file:///models/a.gguf",
      acceptLicense: false,
      default: {},
    });
  });

  it("has a source of these forms, and plain http from this machine alone", () => {
    const good = ["hf://o/r/f.gguf@main", "https://x/y.gguf", "file:///a.gguf", "flm://qwen3:4b", "voice://amy"];
    const local = ["http://localhost/a.gguf", "http://127.0.0.1:8000/models/a.gguf", "http://[::1]:8000/a.gguf"];
    const bad = ["", "/models/a.gguf", "http://x/y.gguf", "ftp://x", "hf://", "s3://b/k"];
    const disguised = ["http://127.0.0.1@x/y.gguf", "http://localhost.x/y.gguf"];
    const isTaken = (source: string): boolean => modelSpecSchema.safeParse({ source }).success;
    for (const source of [...good, ...local]) assert.ok(isTaken(source), source);
    for (const source of [...bad, ...disguised]) assert.ok(!isTaken(source), source);
  });

  const refused: readonly (readonly [field: string, ...values: readonly unknown[]])[] = [
    ["sha256", "A".repeat(64), "abc"],
    ["sizeBytes", -1],
    ["files", [], [{ sha256 }], [{ source: "file:///a", as: "" }]],
    ["ref", "a b"],
    ["engines", ["gpt"]],
    ["capabilities", ["fly"]],
    ["licenseUrl", "somewhere", "javascript:alert(1)", "data:text/html,<script>1</script>", "file:///etc/passwd"],
    ["contextLength", 0],
    ["unknown", true],
  ];
  it("has no other values in its fields", () => {
    for (const [field, ...values] of refused)
      for (const value of values) {
        const { success } = modelSpecSchema.safeParse({ source: "file:///a.gguf", [field]: value });
        assert.ok(!success, `${field} ${JSON.stringify(value)}`);
      }
  });

  it("has the address of its licence on the web", () => {
    for (const licenseUrl of ["https://x.test/terms", "http://127.0.0.1:8000/terms"])
      assert.equal(modelSpecSchema.parse({ source: "file:///a.gguf", licenseUrl }).licenseUrl, licenseUrl);
  });

  it("has either a source or files", () => {
    const rules = (spec: Record<string, unknown>) =>
      modelRules(modelSpecSchema.parse(spec)).map(({ path, message }) => `${path.join(".")}: ${message}`);
    const files = [{ source: "file:///a" }, { source: "file:///b", sha256, as: "mmproj.gguf" }];
    assert.deepEqual(rules({}), ["source: a model needs source or files"]);
    assert.deepEqual(rules({ source: "file:///a", files }), ["files: source and files exclude each other"]);
    assert.deepEqual(rules({ files }), []);
  });
});
