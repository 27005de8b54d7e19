import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { knownPart } from "../../src/api/known-part.ts";
import { publishedSlotSchema, slotStatusSchema } from "../../src/api/status.ts";
import { bootId } from "../../src/lib/boot-id.ts";
import { isRecord } from "../../src/lib/record.ts";
import { openDemandStore } from "../../src/store/state/demand.ts";
import { openPublished } from "../../src/store/state/published.ts";
import { openPublisher } from "../../src/store/state/publisher.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const at = "2026-11-21T20:00:00.000Z";
const operator = {
  schema: 1,
  instance: "default",
  pid: 7,
  bootId: "boot",
  startedAt: at,
  heartbeat: at,
  incarnation: "o",
  beat: 1,
  isPaused: false,
  isSettled: true,
  slotCount: 1,
  configDir: "/etc/berth",
  problems: [{ reason: "SourceEmpty", message: "it is empty" }],
};
const condition = { type: "Ready", status: "True", observedGeneration: 1, lastTransitionTime: at, reason: "Loaded" };
const conditions = [{ ...condition, message: "" }];
const resource = { kind: "Upstream", name: "u", file: "/u.toml", generation: 1, specHash: "h", conditions };
const registry = {
  schema: 1,
  models: [{ ref: "m", origin: "file", source: "file:///m.gguf", state: "available", capabilities: ["chat"] }],
  upstreams: [{ name: "u", spec: { baseUrl: "https://api.example.com/v1", models: [{ ref: "far" }] } }],
  resources: [resource],
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
    conditions,
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
  incarnation: "g",
  beat: 1,
  slots: { primary: { held: 0, inFlight: 1, seenRevision: 3, endpoints: [] } },
};

/** By any name: what a person or a slot is called is no field. */
const maps = new Set(["labels", "decisions", "handledRequests", "transitions", "slots"]);

/** As a later version might write it: with one more field in everything. */
function withMoreFields(value: unknown, isMap = false): unknown {
  if (Array.isArray(value)) return value.map((each) => withMoreFields(each));
  if (!isRecord(value)) return value;
  const fields = Object.entries(value).map(([key, field]) => [key, withMoreFields(field, maps.has(key))]);
  return { ...Object.fromEntries(fields), ...(isMap ? {} : { sinceThen: { more: true } }) };
}

/** As a later version might write it: with values that this one has not heard of. */
function withMoreValues(value: unknown): unknown {
  if (value === registry) {
    const models = registry.models.map((model) => ({ ...model, capabilities: ["chat", "telepathy"] }));
    return { ...registry, models, resources: [{ ...resource, kind: "LaterKind" }, resource] };
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

async function write(stateDir: string, isLater: boolean): Promise<void> {
  const files = { operator, registry, "slots/primary": slot, "demand/g": demand };
  for (const directory of ["slots", "demand"]) await mkdir(join(stateDir, directory), { recursive: true });
  for (const [name, value] of Object.entries(files))
    await writeFile(
      join(stateDir, `${name}.json`),
      JSON.stringify(isLater ? withMoreFields(withMoreValues(value)) : value),
    );
}

describe("state of a later version", () => {
  it("is read without unknown fields and values, of which the latter are reported once, and keeps its history for the next operator", async () => {
    await using dir = await tempDir();
    await write(dir.path, true);
    const told: string[] = [];
    await using published = await openPublished(dir.path, { sweepMs: 10, onUnknown: (what) => told.push(what) });
    // No time goes by since the heartbeat, however busy the machine is.
    const clocks = { now: () => new Date(demand.heartbeat), elapsedMs: () => 0 };
    await using demands = await openDemandStore(dir.path, clocks);
    assert.deepEqual([published.operator()?.pid, demands.list()[0]?.slots], [operator.pid, demand.slots]);
    const found = published.slot("primary");
    // Its main process answers.
    assert.deepEqual(found?.status, { ...slotStatusSchema.parse(slot.status), state: "ready" });
    assert.deepEqual([found.spec.engine, found.plan.steps.map((step) => step.do)], ["custom", ["wait"]]);
    const { models, resources } = published.registry();
    assert.deepEqual(models[0]?.capabilities, ["chat"]);
    assert.deepEqual(
      resources?.map(({ kind }) => kind),
      ["Upstream"],
    );
    const ofSlot = [
      'slot primary: plan.steps.1.do = "defragment"',
      'slot primary: spec.engine = "quantum"',
      'slot primary: status.capabilities.1 = "telepathy"',
      'slot primary: status.conditions.1.status = "Perhaps"',
      'slot primary: status.processes.1.role = "draft"',
      'slot primary: status.protocols.0 = "telegraph"',
      'slot primary: status.state = "hibernating"',
      'slot primary: status.transitions.1.to = "hibernating"',
    ];
    const ofRegistry = ['registry: models.0.capabilities.1 = "telepathy"', 'registry: resources.0.kind = "LaterKind"'];
    assert.deepEqual(told.toSorted(), [...ofRegistry, ...ofSlot]);
    const toldOperator: string[] = [];
    const publisher = await openPublisher(dir.path, { onUnknown: (what) => toldOperator.push(what) });
    const [kept] = await publisher.readSlots();
    assert.deepEqual([kept?.generation, kept?.status.transitions], [1, slot.status.transitions]);
    assert.deepEqual([toldOperator.length, existsSync(join(dir.path, "aside"))], [ofSlot.length, false]);
    const next = { ...slot, revision: 4, status: { ...slot.status, state: "hibernating", processes: [] } };
    await writeFile(join(dir.path, "slots/primary.json"), JSON.stringify(next));
    await until("the next one is read", () => published.slot("primary")?.revision === 4);
    assert.deepEqual([published.slot("primary")?.status.state, told.length], ["offline", 10]);
  });

  it("tells a gateway that a slot is unloading, and the engine's endpoint, although no other field can be read", async () => {
    await using dir = await tempDir();
    await write(dir.path, false);
    const told: string[] = [];
    await using published = await openPublished(dir.path, { sweepMs: 10, onUnknown: (what) => told.push(what) });
    const publish = async (revision: number, state: string, isReady = true) => {
      const processes = slot.status.processes.map((each) => ({ ...each, isReady }));
      const status = { ...slot.status, state, restarts: "many", processes };
      const other = { ...slot, schema: 2, revision, labels: "none", status };
      await writeFile(join(dir.path, "slots/primary.json"), JSON.stringify(other));
      return await until("it is read", () => {
        const found = published.slot("primary");
        return found?.revision === revision && found;
      });
    };
    assert.equal((await publish(4, "unloading")).status.state, "unloading");
    const { spec, status } = await publish(5, "hibernating");
    assert.deepEqual([status.state, status.processes[0]?.port], ["ready", 8081]);
    assert.equal((await publish(6, "hibernating", false)).status.state, "starting");
    assert.deepEqual(spec.model, publishedSlotSchema.parse(slot).spec.model);
    assert.deepEqual(told, ["slot primary: no more than where its engine answers"]);
  });

  it("is not read where a field is missing or has another form", () => {
    const { labels: _labels, ...rest } = slot;
    for (const strange of [rest, { ...slot, schema: 2 }, { ...slot, name: "Not A Name" }, [], null, "x"])
      assert.equal(knownPart(publishedSlotSchema, withMoreFields(strange)), undefined);
  });
});
