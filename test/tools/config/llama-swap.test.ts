import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { z } from "zod";
import { slotRules } from "../../../src/api/slot.ts";
import { readManifests } from "../../../src/store/files/manifest.ts";
import { runBerth } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

const page = readFileSync(new URL("../../../docs/groups.md", import.meta.url), "utf8");

/** The block of the page that begins with that line. */
function block(first: string): string {
  const found = page.split("```").find((part) => part.startsWith(`yaml\n# ${first}`));
  assert.ok(found !== undefined, first);
  return found.slice("yaml\n".length);
}

const llamaSwap = z
  .looseObject({
    models: z.record(z.string(), z.looseObject({ aliases: z.array(z.string()).default([]) })),
    groups: z.record(z.string(), z.looseObject({ swap: z.boolean(), members: z.array(z.string()) })),
  })
  .parse(parse(block("llama-swap: config.yaml")));
const manifests = block("Berth: slots/llama-swap.yaml");

describe("the llama-swap configuration of docs/groups.md", () => {
  it("is one valid file in Berth", async () => {
    await using directory = await tempDir();
    const config = join(directory.path, "config");
    await mkdir(join(config, "slots"), { recursive: true });
    await writeFile(join(config, "slots/llama-swap.yaml"), manifests);
    const { code, stdout, stderr } = await runBerth(["config", "validate", config], { HOME: directory.path });
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: `${config}: valid\n`, stderr: "" });
  });

  it("has every model with its names, and those that are swapped in one group", () => {
    const declared = readManifests("/config/slots/llama-swap.yaml", manifests);
    const slots = declared.flatMap(({ kind, name, spec }) =>
      kind === "Slot" && spec !== undefined && "aliases" in spec ? [{ name, spec }] : [],
    );
    assert.deepEqual(
      slots.flatMap(({ name, spec }) => slotRules(name, spec)),
      [],
    );
    assert.deepEqual(
      slots.map(({ name, spec }) => [name, ...spec.aliases]),
      Object.entries(llamaSwap.models).map(([name, { aliases }]) => [name, ...aliases]),
    );
    const groups = declared.filter(({ kind }) => kind === "SlotGroup").map(({ name }) => name);
    for (const [name, { swap, members }] of Object.entries(llamaSwap.groups)) {
      const own = slots.filter(({ spec }) => spec.group === name).map((slot) => slot.name);
      assert.deepEqual([groups.includes(name), own], swap ? [true, members] : [false, []]);
    }
  });
});
