import assert from "node:assert/strict";
import { cp, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { recordSchema } from "../../src/api/process-record.ts";
import { bearerFor, readPublishedSlot } from "../../src/api/published-slot.ts";
import { completeSlot } from "../../src/api/slot.ts";
import { demandSchema, slotRequestSchema } from "../../src/api/status.ts";
import { isRecord } from "../../src/lib/record.ts";
import { ProcessRecords } from "../../src/runtimes/process/records.ts";
import { openStore } from "../../src/store/open.ts";
import type { OperatorReport } from "../../src/store/store.ts";
import * as earlier from "../fixtures/reader-a80e358.js";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

/** The state directory of an operator and a gateway of a80e358, as they left it. */
const recorded = fileURLToPath(new URL("../fixtures/published-a80e358", import.meta.url));
const quiet = { onWarning: (line: string) => assert.fail(line), onLost: () => undefined };

const states = {
  absent: "error",
  broken: "error",
  coder: "ready",
  draft: "offline",
  edited: "ready",
  embed: "ready",
  img: "offline",
  invalid: "error",
  leaving: "unloading",
  primary: "ready",
  slow: "starting",
  stt: "offline",
  swapped: "ready",
  tts: "offline",
  warm: "warming",
};

async function json(...path: readonly string[]): Promise<unknown> {
  return JSON.parse(await readFile(join(recorded, ...path), "utf8"));
}

/** Every file of a recorded folder, by name. */
async function all(folder: string): Promise<ReadonlyMap<string, unknown>> {
  const files = await readdir(join(recorded, folder));
  return new Map(await Promise.all(files.map(async (file) => [file.slice(0, -5), await json(folder, file)] as const)));
}

/** `found` says all that `written` says. */
function includes(found: unknown, written: unknown): void {
  assert.partialDeepStrictEqual(found, written);
}

describe("what version a80e358 has published", () => {
  it("is read whole by a gateway", async () => {
    await using dir = await tempDir();
    await cp(recorded, dir.path, { recursive: true });
    const store = openStore({ store: "files", stateDir: dir.path, configDir: dir.path, readOnly: false });
    const onUnknown = (what: string): void => assert.fail(what);
    await using gateway = await store.forGateway({
      ...quiet,
      onUnknown,
      gateway: "g",
      onDiscoveredError: () => undefined,
    });
    const { published } = gateway;
    const found = Object.fromEntries(published.slots().map(({ name, status }) => [name, status.state]));
    assert.deepEqual(found, states);
    for (const [name, slot] of await all("slots")) includes(published.slot(name), slot);
    includes(published.registry(), await json("registry.json"));
    includes(published.operator(), await json("operator.json"));
    assert.notEqual(published.operatorLiveness(), "live");
    includes(gateway.hardware.found(), await json("hardware", "found.json"));
    const coder = published.slot("coder");
    assert.equal(coder?.bearers?.main, bearerFor(coder, { role: "main", ordinal: 0 }).bearer);
    assert.ok(coder?.bearers?.main !== undefined);
    await gateway.demand[Symbol.asyncDispose]();
  });

  it("is read whole by an operator, which loses no history and asks for what was asked for", async () => {
    await using dir = await tempDir();
    await cp(recorded, dir.path, { recursive: true });
    const store = openStore({
      store: "files",
      stateDir: dir.path,
      configDir: join(dir.path, "config"),
      readOnly: false,
    });
    const onUnknown = (what: string): void => assert.fail(what);
    await using lease = await store.lead(quiet);
    const leading = await store.forLeader(lease, { ...quiet, onUnknown });
    const { slots, boot } = leading.before;
    assert.deepEqual(Object.fromEntries(slots.map(({ name, status }) => [name, status.state])), states);
    for (const slot of slots) {
      includes(slot, (await all("slots")).get(slot.name));
      assert.ok(completeSlot(slot.name, slot.spec) !== undefined, "its spec is one of this version");
    }
    includes({ bootId: boot, instance: leading.instance }, await instanceAndBoot());
    await using inputs = await leading.inputs();
    for (const request of (await all("requests")).values()) {
      const { slot, kind, token } = slotRequestSchema.parse(request);
      assert.deepEqual(
        inputs.requests.list(slot).map((each) => [each.kind, each.token]),
        [[kind, token]],
      );
    }
    assert.deepEqual(await readdir(dir.path).then((names) => names.includes("aside")), false);
  });

  it("adopts by the same records", async () => {
    await using dir = await tempDir();
    await cp(join(recorded, "processes"), dir.path, { recursive: true });
    const records = await ProcessRecords.open(dir.path, (await instanceAndBoot()).instance);
    const written = [...(await all("processes")).values()];
    assert.equal(records.all().length, written.length);
    for (const each of written) {
      const { slot, role, ordinal } = recordSchema.parse(each);
      includes(records.get({ slot, role, ordinal }), each);
    }
  });

  it("stays usable where any one of its texts is unknown, as a later version may write it", async () => {
    for (const [name, slot] of await all("slots")) {
      for (const { path, value } of textsIn(slot)) {
        // What is no word of a fixed set does not change.
        if (/^\d{4}-\d\d-\d\dT/.test(value) || path.join(".") === "name") continue;
        const read = readPublishedSlot(changed(slot, path), () => undefined);
        assert.ok(read !== undefined, `${name}: ${path.join(".")} = ${value}`);
        assert.equal(read.name, name);
        const isProcess = path[0] === "status" && path[1] === "processes";
        if (!isProcess)
          includes(
            read.status.processes,
            isRecord(slot) && isRecord(slot["status"]) ? slot["status"]["processes"] : [],
          );
      }
    }
  });
});

async function instanceAndBoot(): Promise<{ readonly instance: string; readonly bootId: string }> {
  const operator = await json("operator.json");
  assert.ok(isRecord(operator));
  return { instance: String(operator["instance"]), bootId: String(operator["bootId"]) };
}

type Path = readonly (string | number)[];

function* textsIn(value: unknown, path: Path = []): Generator<{ readonly path: Path; readonly value: string }> {
  if (typeof value === "string") yield { path, value };
  if (Array.isArray(value)) for (const [index, each] of value.entries()) yield* textsIn(each, [...path, index]);
  else if (isRecord(value)) for (const [key, each] of Object.entries(value)) yield* textsIn(each, [...path, key]);
}

/** The value with a word at that path that this version does not know. */
function changed(value: unknown, [first, ...rest]: Path): unknown {
  if (first === undefined) return "fromLater";
  if (Array.isArray(value)) return value.map((each, index) => (index === first ? changed(each, rest) : each));
  return isRecord(value) ? { ...value, [first]: changed(value[first], rest) } : value;
}

const report: OperatorReport = {
  schema: 1,
  instance: "i",
  pid: process.pid,
  bootId: "b",
  startedAt: "2026-01-01T00:00:00.000Z",
  isPaused: false,
  isSettled: true,
  configDir: "/c",
  problems: [],
};

describe("version a80e358", () => {
  it("reads what this version writes of slots, the operator, demand and requests", async (t) => {
    // No heartbeat grows old while the test reads, however busy the machine is.
    t.mock.timers.enable({ apis: ["Date"], now: Date.now() });
    await using dir = await tempDir();
    const stateDir = join(dir.path, "state");
    await cp(recorded, stateDir, { recursive: true });
    const store = openStore({ store: "files", stateDir, configDir: dir.path, readOnly: false });
    await using lease = await store.lead(quiet);
    const { publisher, before } = await store.forLeader(lease, { ...quiet, onUnknown: (what) => assert.fail(what) });
    // Everything once more, by this version.
    const context = { at: "2026-11-22T20:00:00.000Z", result: "saved", message: "", tokens: 1, bytes: 1 } as const;
    for (const slot of before.slots) {
      const steps = slot.plan.steps.map((step) =>
        step.do === "stop" ? { ...step, savesContext: true as const } : step,
      );
      const status = { ...slot.status, context };
      await publisher.writeSlot({ ...slot, status, plan: { ...slot.plan, steps }, revision: slot.revision + 1 });
    }
    await publisher.writeRegistry(before.registry ?? assert.fail());
    await using gateway = await store.forGateway({
      ...quiet,
      onUnknown: () => undefined,
      gateway: "g",
      onDiscoveredError: () => undefined,
    });
    for (const demand of (await all("demand")).values())
      await gateway.demand.write({ sendsBearers: true, slots: demandSchema.parse(demand).slots });
    const [request] = [...(await all("requests")).values()];
    await gateway.requests.put(slotRequestSchema.parse(request));

    await using reader = await earlier.published.openPublished(stateDir, { onUnknown: (what) => assert.fail(what) });
    assert.deepEqual(Object.fromEntries(reader.slots().map(({ name, status }) => [name, status.state])), states);
    for (const [name, slot] of await all("slots")) {
      const revision = isRecord(slot) ? Number(slot["revision"]) + 1 : 0;
      includes(reader.slot(name), { ...(isRecord(slot) ? slot : {}), revision });
    }
    includes(reader.registry(), await json("registry.json"));
    await publisher.writeOperator(report);
    await until("the operator is seen", () => reader.operator()?.pid === process.pid);
    assert.equal(earlier.availability.isOperatorLost(reader.operator()), false);
    await using demands = await earlier.demand.openDemandStore(stateDir);
    assert.deepEqual(
      demands.list().map((each) => each.gateway),
      ["g"],
    );
    assert.equal(demands.list()[0]?.slots["leaving"]?.seenRevision, 7);
    await using requests = await earlier.requests.openRequestStore(stateDir);
    const { slot, kind } = slotRequestSchema.parse(request);
    assert.deepEqual(
      requests.list(slot).map((each) => each.kind),
      [kind],
    );
    // An operator of that version must not start beside this one.
    await assert.rejects(earlier.lock.acquireLock(join(stateDir, "operator.lock")), { name: "LockHeld" });
    await gateway.demand[Symbol.asyncDispose]();
  });

  it("serves what runs of a slot with replicas, and sends nothing more while it is unloading", async () => {
    await using dir = await tempDir();
    const stateDir = join(dir.path, "state");
    await cp(recorded, stateDir, { recursive: true });
    const store = openStore({ store: "files", stateDir, configDir: dir.path, readOnly: false });
    await using lease = await store.lead(quiet);
    const { publisher, before } = await store.forLeader(lease, { ...quiet, onUnknown: () => undefined });
    const coder = before.slots.find(({ name }) => name === "coder") ?? assert.fail();
    const [main = assert.fail()] = coder.status.processes;
    const second = { ...main, ordinal: 1, port: main.port + 1, endpoint: `http://127.0.0.1:${main.port + 1}` };
    const told: string[] = [];
    await using reader = await earlier.published.openPublished(stateDir, { onUnknown: (what) => told.push(what) });
    const publish = async (revision: number, state: "ready" | "unloading", isReady: boolean): Promise<unknown> => {
      await publisher.writeSlot({
        ...coder,
        revision,
        spec: { ...coder.spec, replicas: 2 },
        status: { ...coder.status, state, processes: [{ ...main, isReady }, second] },
      });
      const slot = await until("it is read", () => {
        const read = reader.slot("coder");
        return read?.revision === revision ? read : undefined;
      });
      const { name, spec, status } = slot;
      const around = { bootId: "b", operator: undefined, now: Date.now() };
      const found = earlier.availability.availabilityOf({ name, spec, status, published: slot }, "main", around);
      return found.endpoint?.port ?? found.kind;
    };
    assert.equal(await publish(100, "ready", true), main.port);
    assert.equal(await publish(101, "unloading", true), "shut");
    assert.equal(reader.slot("coder")?.revision, 101, "which it confirms");
    assert.deepEqual(told, []);
  });
});
