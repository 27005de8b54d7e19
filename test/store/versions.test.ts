import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { knownPart } from "../../src/api/known-part.ts";
import {
  demandSchema,
  publishedOperatorSchema,
  publishedRegistrySchema,
  publishedSlotSchema,
  slotStatusSchema,
} from "../../src/api/status.ts";
import { bootId } from "../../src/lib/boot-id.ts";
import { isRecord } from "../../src/lib/record.ts";
import { openDemandStore } from "../../src/store/demand.ts";
import { openPublished, openPublisher } from "../../src/store/published.ts";
import { tempDir } from "../support/temp-dir.ts";

// As 0.1.0-alpha.0 writes them. Later versions must read these as they stand: they are never edited, only added to.
const at = "2026-11-21T20:00:00.000Z";
const operator = {
  schema: 1,
  instance: "default",
  pid: 7,
  bootId: "boot",
  startedAt: at,
  heartbeat: at,
  isPaused: false,
  isSettled: true,
  configDir: "/etc/berth",
  problems: [{ reason: "SourceEmpty", message: "it is empty" }],
};
const registry = {
  schema: 1,
  models: [{ ref: "m", origin: "file", source: "file:///m.gguf", state: "available" }],
  upstreams: [{ name: "u", spec: { baseUrl: "https://api.example.com/v1", models: [{ ref: "far" }] } }],
};
const slot = {
  schema: 1,
  name: "primary",
  revision: 3,
  generation: 1,
  specHash: "h",
  file: "/etc/berth/slots/primary.toml",
  labels: { team: "x" },
  spec: { enabled: true, engine: "llama", model: { default: "m" }, probe: { intervalSeconds: 5 } },
  status: {
    state: "ready",
    conditions: [
      { type: "Ready", status: "True", observedGeneration: 1, lastTransitionTime: at, reason: "Loaded", message: "" },
    ],
    observedGeneration: 1,
    model: { ref: "m", origin: "spec" },
    capabilities: ["chat"],
    decisions: { threads: { value: "1", reason: "one core" } },
    processes: [{ role: "main", port: 8081, endpoint: "http://127.0.0.1:8081", pid: 9, isReady: true }],
    restarts: 0,
    failures: 0,
    aliases: [],
    handledRequests: {},
    transitions: [{ at, from: "warming", to: "ready", reason: "Loaded", message: "m is loaded" }],
    counters: { transitions: { ready: 1 }, restarts: 0 },
  },
  plan: { reason: "Loaded", message: "m is loaded", steps: [{ do: "wait", reason: "it loads" }] },
};
const demand = {
  schema: 1,
  gateway: "g",
  pid: 8,
  bootId: bootId(),
  heartbeat: new Date().toISOString(),
  slots: { primary: { held: 0, inFlight: 1, seenRevision: 3 } },
};

/** By any name: what a person or a slot is called is no field. */
const maps = new Set(["labels", "decisions", "handledRequests", "transitions", "slots"]);

/** As a later version might write it: with one more field in everything. */
function later(value: unknown, isMap = false): unknown {
  if (Array.isArray(value)) return value.map((each) => later(each));
  if (!isRecord(value)) return value;
  const fields = Object.entries(value).map(([key, field]) => [key, later(field, maps.has(key))]);
  return { ...Object.fromEntries(fields), ...(isMap ? {} : { sinceThen: { more: true } }) };
}

async function write(stateDir: string, change: (value: unknown) => unknown): Promise<void> {
  const files = { operator, registry, "slots/primary": slot, "demand/g": demand };
  for (const directory of ["slots", "demand"]) await mkdir(join(stateDir, directory), { recursive: true });
  for (const [name, value] of Object.entries(files))
    await writeFile(join(stateDir, `${name}.json`), JSON.stringify(change(value)));
}

async function read(stateDir: string): Promise<unknown> {
  await using published = await openPublished(stateDir);
  await using demands = await openDemandStore(stateDir);
  const written = await (await openPublisher(stateDir)).readSlots();
  return [published.operator(), published.registry(), published.slots(), written, demands.list()];
}

describe("state of another version", () => {
  it("is read whole where that is an earlier one, and as far as it is known where it is a later one", async () => {
    await using dir = await tempDir();
    await write(dir.path, (value) => value);
    const known = await read(dir.path);
    const found = JSON.stringify(known);
    for (const part of ['"pid":7', '"ref":"far"', '"file:///m.gguf"', '"port":8081', '"inFlight":1'])
      assert.ok(found.includes(part), part);
    await write(dir.path, later);
    assert.deepEqual(await read(dir.path), known);
  });

  it("says all that an earlier version must find", () => {
    const shapes = [
      [publishedOperatorSchema, operator],
      [publishedRegistrySchema, registry],
      [publishedSlotSchema, slot],
      [slotStatusSchema, slot.status],
      [demandSchema, demand],
    ] as const;
    for (const [{ shape }, value] of shapes) {
      const dropped = Object.keys(value).filter((key) => !(key in shape));
      assert.deepEqual(dropped, [], "a field that was required is dropped with the next `schema` only");
    }
  });

  it("is not read where something is missing or is another thing", () => {
    const { labels: _labels, ...rest } = slot;
    for (const strange of [rest, { ...slot, schema: 2 }, { ...slot, name: "Not A Name" }, [], null, "x"])
      assert.equal(knownPart(publishedSlotSchema, later(strange)), undefined);
  });
});
