import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { rowsOf, site, type Site } from "./fixture.ts";

const lines = (count: number, line: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index)).join("\n");

/** Each kept its parser busy for seconds or minutes. */
const files: Readonly<Record<string, string>> = {
  "slots/anchors.yaml": "&a ".repeat(300_000),
  "slots/aliases.yaml": lines(50_000, (index) => `k${index}: &a${index} x`),
  "slots/dashes.yaml": "- ".repeat(450_000),
  "slots/list.yaml": `a: [${"1,".repeat(400_000)}]`,
  "slots/documents.yaml": "---\na: 1\n".repeat(80_000),
  "slots/deep.yaml": "[".repeat(900_000),
  "slots/map.toml": lines(60_000, (index) => `key${index} = 1`),
  "slots/tables.toml": lines(60_000, (index) => `[a.b${index}]`),
};

describe("bodies that take their parser long", () => {
  let at: Site;
  before(async () => {
    at = await site();
  });
  after(() => at[Symbol.asyncDispose]());
  const validate = async (file: string, text: string) =>
    await at.got("/api/config/validate", "POST", { files: { [file]: text } });

  it("are answered", { timeout: 600_000 }, async () => {
    for (const [file, text] of Object.entries(files)) assert.equal((await validate(file, text))["valid"], false, file);
  });

  it("are written in a single edit: a provider with a thousand labels", async () => {
    const labels = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`label-${index}`, "x"]));
    const spec = { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] };
    assert.equal((await at.send("PUT", "/api/upstreams/acme", spec)).status, 201);
    assert.equal((await at.send("PUT", "/api/upstreams/acme", { ...spec, labels })).status, 202);
  });

  it("report at most a hundred unknown keys of one map", async () => {
    const { diagnostics } = await validate(
      "slots/a.yaml",
      lines(2000, (index) => `key${index}: x`),
    );
    assert.equal(rowsOf({ data: diagnostics }).length, 100);
  });
});
