import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { z } from "zod";
import { completeSlot, slotSpecSchema } from "../../src/api/slot.ts";
import { canonicalJson, sha256 } from "../../src/lib/canonical.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { input, model, workloads } from "./fixture.ts";

/** Slots with the hashes that the version without replicas gave them (commit a80e358). */
const recorded = z
  .record(
    z.string(),
    z.object({
      slot: z.string(),
      spec: slotSpecSchema,
      isContainer: z.boolean(),
      specHash: z.string(),
      hashes: z.record(z.string(), z.string()),
    }),
  )
  .parse(JSON.parse(readFileSync(new URL("recorded-hashes.json", import.meta.url), "utf8")));

const ranker = { ref: "ranker", capabilities: ["rerank" as const], path: "/models/ranker.gguf" };
const rerankModel = model({ ...ranker, files: [ranker.path] });

for (const [name, { slot, spec, isContainer, specHash, hashes }] of Object.entries(recorded)) {
  test(`an update restarts no engine, and is no edit: ${name}`, () => {
    const { placement } = input();
    const docker = { ...placement, ...runningIn("docker") } as const;
    const given = input({ slot, spec, rerankModel, placement: isContainer ? docker : placement });
    assert.equal(sha256(canonicalJson(completeSlot(slot, spec))), specHash);
    assert.deepEqual(Object.fromEntries(workloads(given).map(({ role, hash }) => [role, hash])), hashes);
    const more = input({ ...given, spec: { ...spec, replicas: 3 }, ordinal: 2 });
    assert.equal(workloads(more)[0]?.hash, hashes["main"], "the number of replicas is no part of it");
  });
}
