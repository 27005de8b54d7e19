import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiVersion } from "../../../src/api/names.ts";
import { ApiError } from "../../../src/lib/kubernetes/api-error.ts";
import { LeadershipLost } from "../../../src/store/store.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";
import { leader, namespacePath } from "./leader.ts";

const slots = `/apis/${apiVersion}/namespaces/berth/slots`;
const installation = `${namespacePath}/configmaps/berth-installation`;
const spec = { model: { default: "m" } };

describe("an operator that is deposed while a write is on its way", () => {
  it("writes no status over its successor's", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata: {}, spec });
    await using deposed = await leader(api);
    deposed.loseAt("PATCH", `${slots}/a/status`);
    await assert.rejects(deposed.store.publisher.writeSlot(published("a")), LeadershipLost);
    assert.equal(api.get(`${slots}/a`)?.["status"], undefined);
  });

  it("frees the Slots of a namespace that is being deleted all the same", async () => {
    const api = new ApiDouble();
    const metadata = { finalizers: ["berth.dev/engine"], deletionTimestamp: "2026-11-23T00:00:00Z" };
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata, spec });
    await using deposed = await leader(api);
    deposed.loseAt("GET", namespacePath);
    api.put(namespacePath, { status: { phase: "Terminating" } });
    await until("it is freed", () => JSON.stringify(finalizersOf(api)) === "[]");
  });

  it("does not write its installation over its successor's", async () => {
    await using deposed = await leader();
    const { api } = deposed;
    deposed.loseAt("PATCH", installation);
    const lose = api.before;
    let attempts = 0;
    api.before = (method, path) => {
      if (method === "PATCH" && path === installation) {
        attempts += 1;
        api.put(installation, { data: { "installation.json": JSON.stringify({ instance: "successor's" }) } });
      }
      return lose(method, path);
    };
    api.put(installation, undefined);
    await until("it would write its own", () => attempts > 0);
    assert.match(JSON.stringify(api.get(installation)?.["data"]), /successor's/);
  });
});

const finalizersOf = (api: ApiDouble): unknown => Object(api.get(`${slots}/a`)?.["metadata"])["finalizers"];

describe("the finalizer of a Slot", () => {
  it("stays while its object lives, also where its state is taken back", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata: {}, spec });
    await using leading = await leader(api);
    const { publisher } = leading.store;
    await publisher.writeSlot(published("a"));
    await publisher.deleteSlot("a");
    assert.deepEqual(finalizersOf(api), ["berth.dev/engine"]);
  });

  it("goes with the state once its object is to be deleted", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata: {}, spec });
    await using leading = await leader(api);
    await leading.store.publisher.writeSlot(published("a"));
    const object = api.get(`${slots}/a`);
    const metadata = { ...Object(object?.["metadata"]), deletionTimestamp: "2026-11-23T00:00:00Z" };
    api.put(`${slots}/a`, { ...object, metadata });
    await until("the deletion is seen", async () => {
      await leading.store.publisher.deleteSlot("a");
      return JSON.stringify(finalizersOf(api)) === "[]";
    });
  });

  it("stays where a new operator can only hide what its predecessor published of a Slot in deletion", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata: {}, spec });
    {
      await using earlier = await leader(api);
      const slot = published("a");
      await earlier.store.publisher.writeSlot({ ...slot, status: { ...slot.status, state: "ready" } });
    }
    const object = api.get(`${slots}/a`);
    const metadata = { ...Object(object?.["metadata"]), deletionTimestamp: "2026-11-23T00:00:00Z" };
    api.put(`${slots}/a`, { ...object, metadata });
    await using leading = await leader(api);
    let checks = 0;
    api.before = (method, path) => {
      if (method === "GET" && path === namespacePath) checks += 1;
      if (path.endsWith("/secrets/berth-bearers")) throw new ApiError(403, "Forbidden", "secrets is forbidden");
    };
    const bearer = "b".repeat(40);
    const bearers = { bearers: { main: bearer }, bearerList: [{ role: "main", ordinal: 0, bearer } as const] };
    await assert.rejects(leading.store.publisher.writeSlot({ ...published("a", 2), ...bearers }), /forbidden/);
    await leading.store.publisher.hideSlot("a");
    const before = checks;
    await until("two checks have passed", () => checks >= before + 2);
    assert.deepEqual(finalizersOf(api), ["berth.dev/engine"]);
  });

  it("stays where its state is hidden after its deletion has begun: its engine may run", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata: {}, spec });
    await using leading = await leader(api);
    const { publisher } = leading.store;
    await using inputs = await leading.store.inputs();
    await publisher.writeSlot(published("a"));
    const object = api.get(`${slots}/a`);
    const metadata = { ...Object(object?.["metadata"]), deletionTimestamp: "2026-11-23T00:00:00Z" };
    api.put(`${slots}/a`, { ...object, metadata });
    await until("the deletion is seen", () => inputs.source.get("Slot", "a") === undefined);
    await publisher.hideSlot("a");
    assert.deepEqual(Object(api.get(`${slots}/a`)?.["status"])["conditions"] ?? [], []);
    assert.deepEqual(finalizersOf(api), ["berth.dev/engine"]);
    await publisher.deleteSlot("a");
    assert.deepEqual(finalizersOf(api), []);
  });

  it("stays for the operator after the one that hid it, which knows of the Slot and frees it after its engine's end", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata: {}, spec: { ...spec, stopSeconds: 7 } });
    {
      await using earlier = await leader(api);
      const slot = published("a");
      await earlier.store.publisher.writeSlot({ ...slot, status: { ...slot.status, state: "ready" } });
      await earlier.store.publisher.hideSlot("a");
    }
    const object = api.get(`${slots}/a`);
    const metadata = { ...Object(object?.["metadata"]), deletionTimestamp: "2026-11-23T00:00:00Z" };
    api.put(`${slots}/a`, { ...object, metadata });
    let checks = 0;
    api.before = (method, path) => {
      if (method === "GET" && path === namespacePath) checks += 1;
    };
    await using leading = await leader(api);
    const { publisher } = leading.store;
    const found = await publisher.readSlots();
    assert.deepEqual(
      found.map(({ name, spec: read }) => [name, read.stopSeconds]),
      [["a", 7]],
    );
    const before = checks;
    await until("two checks have passed", () => checks >= before + 2);
    assert.deepEqual(finalizersOf(api), ["berth.dev/engine"]);
    await publisher.deleteSlot("a");
    assert.deepEqual(finalizersOf(api), []);
  });

  it("goes where the deletion began before anything was published", async () => {
    await using leading = await leader();
    const metadata = { finalizers: ["berth.dev/engine"], deletionTimestamp: "2026-11-23T00:00:00Z" };
    leading.api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata, spec });
    await until("it is freed", () => JSON.stringify(finalizersOf(leading.api)) === "[]");
  });

  it("stays where the deletion began while its first status is on its way", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata: {}, spec });
    await using leading = await leader(api);
    let checks = 0;
    const sent = Promise.withResolvers<void>();
    api.before = async (method, path) => {
      if (method === "GET" && path === namespacePath) checks += 1;
      if (method === "PATCH" && path === `${slots}/a/status`) await sent.promise;
    };
    const writing = leading.store.publisher.writeSlot(published("a"));
    await until("it has its finalizer", () => JSON.stringify(finalizersOf(api)) === '["berth.dev/engine"]');
    const object = api.get(`${slots}/a`);
    const metadata = { ...Object(object?.["metadata"]), deletionTimestamp: "2026-11-23T00:00:00Z" };
    api.put(`${slots}/a`, { ...object, metadata });
    await until("it was looked at", () => checks > 1);
    assert.deepEqual(finalizersOf(api), ["berth.dev/engine"]);
    sent.resolve();
    await writing;
  });

  it("stays where a status was written while its removal was on its way", async () => {
    await using leading = await leader();
    const { api } = leading;
    const metadata = { finalizers: ["berth.dev/engine"], deletionTimestamp: "2026-11-23T00:00:00Z" };
    let attempts = 0;
    let checks = 0;
    api.before = (method, path) => {
      if (method === "GET" && path === namespacePath) checks += 1;
      if (method !== "PATCH" || path !== `${slots}/a`) return;
      attempts += 1;
      api.put(path, { ...api.get(path), status: { record: "{}" } });
    };
    api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata, spec });
    await until("its removal was tried", () => attempts > 0 && checks > 1);
    assert.equal(attempts, 1);
    assert.deepEqual(finalizersOf(api), ["berth.dev/engine"]);
  });
});

it("the name of an installation is written again where its ConfigMap was deleted, also after failures", async () => {
  await using leading = await leader();
  const { api, store } = leading;
  let failures = 0;
  api.before = (method, path) => {
    if (method !== "PATCH" || path !== installation || failures === 2) return;
    failures += 1;
    throw new ApiError(500, "InternalError", "etcd is away");
  };
  api.put(installation, undefined);
  await until("it is there again", () => api.get(installation) !== undefined);
  assert.equal(failures, 2);
  assert.deepEqual(Object(api.get(installation)?.["data"]), {
    "installation.json": JSON.stringify({ instance: store.instance }),
  });
});

describe("a Slot whose spec is broken", () => {
  const broken = { model: { default: "m" }, idleSecond: 5 };
  const first = { apiVersion, kind: "Slot", metadata: { uid: "first", generation: 1 } };
  const again = { apiVersion, kind: "Slot", metadata: { uid: "second", generation: 1 } };

  it("runs by its last valid spec, also for the next operator", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { ...first, spec });
    {
      await using leading = await leader(api);
      await leading.store.publisher.writeSlot(published("a"));
    }
    api.put(`${slots}/a`, { ...api.get(`${slots}/a`), spec: broken });
    await using next = await leader(api);
    await using inputs = await next.store.inputs();
    const found = inputs.source.get("Slot", "a");
    assert.match(found?.diagnostics[0]?.message ?? "", /idleSecond/);
    assert.deepEqual(
      [found?.spec?.model.default, found?.specHash],
      [published("a").spec.model.default, published("a").specHash],
    );
  });

  it("has no last valid spec where its status had to be hidden", async () => {
    const api = new ApiDouble();
    api.put(`${slots}/a`, { ...first, spec });
    {
      await using leading = await leader(api);
      await leading.store.publisher.writeSlot(published("a"));
      await leading.store.publisher.hideSlot("a");
    }
    api.put(`${slots}/a`, { ...api.get(`${slots}/a`), spec: broken });
    await using next = await leader(api);
    await using inputs = await next.store.inputs();
    const found = inputs.source.get("Slot", "a");
    assert.match(found?.diagnostics[0]?.message ?? "", /idleSecond/);
    assert.equal(found?.spec, undefined);
  });

  for (const isSeen of [true, false])
    it(`never runs by that of a deleted Slot of its name${isSeen ? "" : ", whose deletion nobody saw"}`, async () => {
      const api = new ApiDouble();
      api.put(`${slots}/a`, { ...first, spec });
      await using leading = await leader(api);
      await leading.store.publisher.writeSlot(published("a"));
      await using next = await leader(api);
      await using inputs = await next.store.inputs();
      const { source } = inputs;
      assert.equal(source.get("Slot", "a")?.spec?.model.default, "m");
      if (isSeen) {
        api.put(`${slots}/a`, undefined);
        await until("its deletion is seen", () => source.get("Slot", "a") === undefined);
      }
      api.put(`${slots}/a`, { ...again, spec: broken });
      const found = await until("the new Slot is seen", () => {
        const now = source.get("Slot", "a");
        return now?.uid === "second" && now;
      });
      assert.equal(found.spec, undefined);
    });
});
