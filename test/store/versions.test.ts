import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { z } from "zod";
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
import { openDemandStore } from "../../src/store/state/demand.ts";
import { openPublished } from "../../src/store/state/published.ts";
import { openPublisher } from "../../src/store/state/publisher.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

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

/** As a later version might write it: with values that this one has not heard of. */
function strange(value: unknown): unknown {
  if (value === registry) {
    return { ...registry, models: registry.models.map((model) => ({ ...model, capabilities: ["chat", "telepathy"] })) };
  }
  if (value !== slot) return value;
  const { status, plan } = slot;
  return {
    ...slot,
    spec: { ...slot.spec, engine: "quantum" },
    status: {
      ...status,
      state: "hibernating",
      conditions: [...status.conditions, ...status.conditions.map((each) => ({ ...each, status: "Perhaps" }))],
      capabilities: ["chat", "telepathy"],
      protocols: ["telegraph"],
      processes: [...status.processes, { ...status.processes[0], role: "draft", port: 8082 }],
      transitions: [...status.transitions, { ...status.transitions[0], to: "hibernating" }],
    },
    plan: { ...plan, steps: [...plan.steps, { do: "defragment", reason: "it is time" }] },
  };
}

async function write(stateDir: string, change: (value: unknown) => unknown): Promise<void> {
  const files = { operator, registry, "slots/primary": slot, "demand/g": demand };
  for (const directory of ["slots", "demand"]) await mkdir(join(stateDir, directory), { recursive: true });
  for (const [name, value] of Object.entries(files))
    await writeFile(join(stateDir, `${name}.json`), JSON.stringify(change(value)));
}

async function read(stateDir: string): Promise<unknown> {
  await using published = await openPublished(stateDir);
  // No time goes by since the heartbeat, however busy the machine is.
  const clocks = { now: () => new Date(demand.heartbeat), elapsedMs: () => 0 };
  await using demands = await openDemandStore(stateDir, clocks);
  const written = await (await openPublisher(stateDir)).readSlots();
  return [published.operator(), published.registry(), published.slots(), written, demands.list()];
}

describe("state of another version", () => {
  it("of an earlier version is read whole, and of a later version as far as it is known", async () => {
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

  it("is read by a version that knows no resources, and without resources of kinds that a later version has added", () => {
    const status = { name: "u", file: "/u.toml", generation: 1, specHash: "h", conditions: slot.status.conditions };
    const resources = [
      { kind: "LaterKind", ...status },
      { kind: "Upstream", ...status },
    ];
    const { resources: _new, ...shape } = publishedRegistrySchema.shape;
    const earlier = knownPart(z.strictObject(shape), { ...registry, resources });
    assert.deepEqual(
      earlier?.upstreams.map(({ name }) => name),
      ["u"],
    );
    const present = knownPart(publishedRegistrySchema, { ...registry, resources });
    assert.deepEqual(
      present?.resources?.map(({ kind }) => kind),
      ["Upstream"],
    );
    assert.equal(present?.models.length, 1);
  });

  it("is read without the values that a later version has added, which are reported once", async () => {
    await using dir = await tempDir();
    await write(dir.path, strange);
    const told: string[] = [];
    await using published = await openPublished(dir.path, { sweepMs: 10, onUnknown: (what) => told.push(what) });
    const found = published.slot("primary");
    assert.deepEqual(found?.status, {
      ...slotStatusSchema.parse(slot.status),
      // Its main process answers.
      state: "ready",
      transitions: slot.status.transitions,
    });
    assert.deepEqual([found.spec.engine, found.plan.steps.map((step) => step.do)], ["custom", ["wait"]]);
    assert.deepEqual(
      published.registry().models.map(({ ref, capabilities }) => [ref, capabilities]),
      [["m", ["chat"]]],
    );
    const news = [
      'registry: models.0.capabilities.1 = "telepathy"',
      'slot primary: plan.steps.1.do = "defragment"',
      'slot primary: spec.engine = "quantum"',
      'slot primary: status.capabilities.1 = "telepathy"',
      'slot primary: status.conditions.1.status = "Perhaps"',
      'slot primary: status.processes.1.role = "draft"',
      'slot primary: status.protocols.0 = "telegraph"',
      'slot primary: status.state = "hibernating"',
      'slot primary: status.transitions.1.to = "hibernating"',
    ];
    assert.deepEqual(told.toSorted(), news);
    const next = { ...slot, revision: 4, status: { ...slot.status, state: "hibernating", processes: [] } };
    await writeFile(join(dir.path, "slots/primary.json"), JSON.stringify(next));
    await until("the next one is read", () => published.slot("primary")?.revision === 4);
    assert.deepEqual([published.slot("primary")?.status.state, told.length], ["offline", news.length]);
  });

  it("keeps its history for an earlier operator that is started again", async () => {
    await using dir = await tempDir();
    await write(dir.path, strange);
    const told: string[] = [];
    const publisher = await openPublisher(dir.path, { onUnknown: (what) => told.push(what) });
    const [found] = await publisher.readSlots();
    assert.deepEqual(
      [found?.generation, found?.status.counters.restarts, found?.status.transitions],
      [1, 0, slot.status.transitions],
    );
    assert.equal(told.length, 8);
    assert.equal(existsSync(join(dir.path, "aside")), false);
  });

  it("tells a gateway that a slot is unloading, and the engine's endpoint, although no other field can be read", async () => {
    await using dir = await tempDir();
    await write(dir.path, (value) => value);
    const told: string[] = [];
    await using published = await openPublished(dir.path, { sweepMs: 10, onUnknown: (what) => told.push(what) });
    const publish = async (revision: number, state: string): Promise<void> => {
      const other = {
        ...slot,
        schema: 2,
        revision,
        labels: "none",
        status: { ...slot.status, state, restarts: "many" },
      };
      await writeFile(join(dir.path, "slots/primary.json"), JSON.stringify(other));
      await until("it is read", () => published.slot("primary")?.revision === revision);
    };
    await publish(4, "unloading");
    assert.equal(published.slot("primary")?.status.state, "unloading");
    await publish(5, "hibernating");
    assert.deepEqual(
      [published.slot("primary")?.status.state, published.slot("primary")?.status.processes[0]?.port],
      ["ready", 8081],
    );
    assert.deepEqual(published.slot("primary")?.spec.model, publishedSlotSchema.parse(slot).spec.model);
    assert.deepEqual(told, ["slot primary: no more than where its engine answers"]);
  });

  it("is not read where a field is missing or has another form", () => {
    const { labels: _labels, ...rest } = slot;
    for (const strange of [rest, { ...slot, schema: 2 }, { ...slot, name: "Not A Name" }, [], null, "x"])
      assert.equal(knownPart(publishedSlotSchema, later(strange)), undefined);
  });
});
