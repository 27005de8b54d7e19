import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { demandSchema } from "../../../src/api/status.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { parseJson } from "../../../src/lib/json.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { openDemandLease, openDemandLeases } from "../../../src/store/kubernetes/demand.ts";
import { openOtherLeases } from "../../../src/store/kubernetes/other-leases.ts";
import { objectWriter } from "../../../src/store/kubernetes/writer.ts";
import type { DemandReport } from "../../../src/store/store.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";
import { nothing, openOperator, openView, slots, spec, withSlot } from "./parts.ts";

const leases = "/apis/coordination.k8s.io/v1/namespaces/berth/leases";

/** The operator's Lease, as it renews it. */
function beat(api: ApiDouble, isSettled: boolean): void {
  const now = new Date().toISOString();
  const times = { startedAt: now, heartbeat: now, incarnation: now, beat: 1 };
  const state = { isPaused: false, isSettled, slotCount: 0, configDir: "/c", problems: [] };
  const record = { schema: 1, instance: "i", pid: 1, bootId: "b", ...times, ...state };
  api.put(`${leases}/berth-operator`, { metadata: { annotations: { "berth.dev/record": JSON.stringify(record) } } });
}

describe("a gateway's view of a cluster", () => {
  it("survives a refused list while the operator settles, and lists again at the operator's next heartbeat", async () => {
    using api = new ApiDouble();
    const errors: unknown[] = [];
    beat(api, false);
    await using reader = await openView(api, (error) => errors.push(error));
    const { view } = reader;
    api.before = (method, path) => {
      if (method === "GET" && path === slots) throw new ApiError(500, "InternalError", "etcd is away");
    };
    beat(api, true);
    await until("the refusal is reported", () => errors.length > 0);
    assert.equal(view.operator()?.isSettled, false);
    api.before = nothing;
    beat(api, true);
    await until("the slots were listed", () => view.operator()?.isSettled === true);
  });
});

describe("the demand of a gateway", () => {
  it("is written every 2 s without changes, also where a tick comes early or the API server is slow", async () => {
    using api = new ApiDouble();
    let nowMs = 0;
    await using writer = openDemandLease(api, "g", () => nowMs);
    const writtenAt: number[] = [];
    api.before = (method) => {
      if (method === "PATCH") writtenAt.push(nowMs);
      nowMs += 300;
    };
    for (const atMs of [0, 1000, 1996, 2998, 3999, 5001, 6000]) {
      nowMs = atMs;
      await writer.write({ slots: {} });
    }
    assert.deepEqual(writtenAt, [0, 1996, 3999, 6000]);
  });
});

const longest = 256 * 1024;

describe("the demand of other gateways", () => {
  it("is shown while they renew their Leases, whatever this gateway's own says", async () => {
    using api = new ApiDouble();
    const report = (inFlight: number): DemandReport => ({
      slots: { a: { held: 0, inFlight, seenRevision: 1, endpoints: [] } },
    });
    await using own = openDemandLease(api, "own");
    await own.write(report(1));
    await using others = await openOtherLeases(api, "own", (error) => assert.fail(String(error)));
    const told = (): readonly unknown[] => others.list().map(({ gateway, slots }) => [gateway, slots["a"]?.inFlight]);
    assert.deepEqual(told(), []);
    await using other = openDemandLease(api, "other");
    await other.write(report(2));
    await until("the other one is told", () => JSON.stringify(told()) === '[["other",2]]');
    await other[Symbol.asyncDispose]();
    await until("it has ended", () => told().length === 0);
  });
});

describe("the Lease of a gateway", { concurrency: true }, () => {
  it("is deleted once the gateway was gone for long, and stays while the gateway renews it", async () => {
    using api = new ApiDouble();
    const errors: unknown[] = [];
    await using killed = openDemandLease(api, "killed");
    await using living = openDemandLease(api, "living", () => (nowMs += 2000));
    let nowMs = 0;
    await killed.write({ slots: {} });
    await living.write({ slots: {} });
    await using _demand = await openDemandLeases(api, (error) => void errors.push(error), 2000);
    await until("it is deleted", async () => {
      await living.write({ slots: {} });
      return api.get(`${leases}/berth-gateway-killed`) === undefined;
    });
    assert.ok(api.get(`${leases}/berth-gateway-living`) !== undefined);
    assert.deepEqual(errors, []);
  });

  it("stays where the gateway renews it while its deletion is on its way", async () => {
    using api = new ApiDouble();
    const errors: unknown[] = [];
    let nowMs = 0;
    await using late = openDemandLease(api, "late", () => (nowMs += 2000));
    await late.write({ slots: {} });
    const path = `${leases}/berth-gateway-late`;
    let attempts = 0;
    api.before = async (method) => {
      if (method !== "DELETE") return;
      attempts += 1;
      await late.write({ slots: {} });
    };
    {
      await using _demand = await openDemandLeases(api, (error) => void errors.push(error), 400);
      await until("its deletion was tried twice", () => attempts > 1 || api.get(path) === undefined);
    }
    api.before = nothing;
    assert.ok(api.get(path) !== undefined);
    assert.deepEqual(errors, []);
  });

  it("has room for a thousand slots with the longest names, all of them used", async () => {
    using api = new ApiDouble();
    await using writer = openDemandLease(api, "g");
    const now = new Date().toISOString();
    const context = { tokens: 131_072, tokensPerSecond: 1234.567890123456 };
    const used = { held: 0, inFlight: 0, seenRevision: 100, lastRequestAt: now, lastByteAt: now, context };
    const idle = { role: "main", ordinal: 0, inFlight: 0, lastByteAt: now } as const;
    const names = Array.from({ length: 999 }, (_, index) => `${index}`.padStart(32, "x"));
    const atWork = { ...idle, ordinal: 1, inFlight: 1 } as const;
    const busy = { ...used, inFlight: 1, endpoints: [idle, atWork] };
    const slots = { ...Object.fromEntries(names.map((name) => [name, { ...used, endpoints: [idle] }])), busy };
    await writer.write({ slots });
    const { metadata } = api.get(`${leases}/berth-gateway-g`) ?? {};
    const annotations = isRecord(metadata) && isRecord(metadata["annotations"]) ? metadata["annotations"] : {};
    const text = String(annotations["berth.dev/demand"]);
    assert.ok(text.length < longest, `${text.length} bytes`);
    const read = demandSchema.parse(parseJson(text)).slots;
    assert.deepEqual(read[names[0] ?? ""], { ...used, endpoints: [] });
    assert.deepEqual(read["busy"], { ...busy, endpoints: [atWork] });
  });
});

describe("the writer of custom resources", () => {
  it("keeps whatever else an object has, such as its owner", async () => {
    using api = new ApiDouble();
    const ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: "stack", uid: "u" }];
    api.put(`${slots}/a`, { metadata: { ownerReferences, labels: { team: "x" } }, spec });
    await objectWriter(api).replace("Slot", "a", { spec: { ...spec, idleSeconds: 5 } });
    const { metadata, spec: after } = api.get(`${slots}/a`) ?? {};
    assert.partialDeepStrictEqual(metadata, { ownerReferences, labels: { team: "x" } });
    assert.deepEqual(after, { ...spec, idleSeconds: 5 });
  });

  it("writes over the spec that a change was judged against, and over no other", async () => {
    using api = new ApiDouble();
    api.put(`${slots}/a`, { spec });
    const writer = objectWriter(api);
    const judged = await writer.source("Slot", "a");
    api.put(`${slots}/a`, { spec: { ...spec, idleSeconds: 5 } });
    const replace = async (hash = ""): Promise<unknown> => await writer.replace("Slot", "a", { spec, over: hash });
    await assert.rejects(replace(judged?.hash), { code: "config.changed" });
    await replace((await writer.source("Slot", "a"))?.hash);
    assert.deepEqual(api.get(`${slots}/a`)?.["spec"], spec);
  });
});

describe("the operator's writer of states", () => {
  it("misses a Secret of bearers that somebody deletes, and writes it again at once; gateways see that", async () => {
    using api = withSlot();
    await using operator = await openOperator(api);
    await using reader = await openView(api, (error) => assert.fail(String(error)));
    const { publisher } = operator;
    const slot = { ...published("a"), bearerList: [{ role: "main" as const, ordinal: 0, bearer: "x".repeat(40) }] };
    const secret = "/api/v1/namespaces/berth/secrets/berth-bearers";
    await publisher.writeSlot(slot);
    assert.deepEqual(publisher.missingSlots(["a"]), []);
    api.put(secret, undefined);
    await until("it is missed", () => publisher.missingSlots(["a"]).length === 1);
    await publisher.writeSlot(slot);
    assert.notEqual(api.get(secret), undefined);
    await until("its bearer is seen", () => reader.view.slot("a")?.bearerList !== undefined);
    assert.deepEqual(publisher.missingSlots(["a"]), []);
  });

  it("reads an earlier operator's states, then keeps none in memory, and still sees where they were emptied", async () => {
    using api = withSlot();
    {
      await using earlier = await openOperator(api);
      await earlier.publisher.writeSlot(published("a", 7));
    }
    await using operator = await openOperator(api);
    const { source, publisher } = operator;
    assert.deepEqual(
      (await publisher.readSlots()).map(({ name, revision }) => [name, revision]),
      [["a", 7]],
    );
    source.forgetStates();
    const kept = (): unknown => source.object("Slot", "a")?.value["status"];
    assert.deepEqual(Object.keys(kept() ?? {}), ["record"]);
    await publisher.writeSlot(published("a", 8));
    assert.deepEqual(publisher.missingSlots(["a"]), []);
    api.put(`${slots}/a`, { ...api.get(`${slots}/a`), status: undefined });
    await until("it is seen to be missing", () => publisher.missingSlots(["a"]).length === 1);
  });

  it("ends one write of a slot before the next begins: a delayed write does not win over a later write", async () => {
    using api = withSlot();
    await using operator = await openOperator(api);
    const { publisher } = operator;
    const held = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    let count = 0;
    api.before = async (method, path) => {
      if (method !== "PATCH" || !path.endsWith("/a/status")) return;
      count += 1;
      if (count > 1) return;
      reached.resolve();
      await held.promise;
    };
    const first = publisher.writeSlot(published("a", 1));
    await reached.promise;
    const later = publisher.writeSlot({ ...published("a", 2), specHash: "later" });
    // A later write that does not wait arrives here.
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    held.resolve();
    await Promise.all([first, later]);
    assert.equal(count, 2);
    const status = api.get(`${slots}/a`)?.["status"];
    // One line of a description: the record repeats the spec.
    assert.match(isRecord(status) ? String(status["record"]) : "", /^\{.*"revision":2,.*\}$/);
  });
});
