import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { configSite } from "./site.ts";

it("the llama-swap configuration of docs/groups.md is one valid file in Berth", async () => {
  const page = readFileSync(new URL("../../../docs/groups.md", import.meta.url), "utf8");
  const block = page.split("```").find((part) => part.startsWith("yaml\n# Berth: slots/llama-swap.yaml"));
  assert.ok(block !== undefined);
  await using site = await configSite({ "slots/llama-swap.yaml": block.slice("yaml\n".length) });
  assert.deepEqual(await site.config("validate"), { code: 0, stdout: "DIR/config: valid\n", stderr: "" });
});
