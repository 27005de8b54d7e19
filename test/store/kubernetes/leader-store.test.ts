import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiVersion } from "../../../src/api/names.ts";
import { unconfiguredSlot } from "../../../src/api/slot.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { LeadershipLost } from "../../../src/store/store.ts";
import type { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";
import { leader, namespacePath } from "./leader.ts";
import { slots, spec, withSlot } from "./parts.ts";

const installation = `${namespacePath}/configmaps/berth-installation`;
const slotPath = `${slots}/a`;
const ready = { ...published("a"), status: { ...published("a").status, state: "ready" } } as const;
const ending = { finalizers: ["berth.dev/engine"], deletionTimestamp: "2026-11-23T00:00:00Z" };

const finalizersOf = (api: ApiDouble): unknown => Object(api.get(slotPath)?.["metadata"])["finalizers"];
const isKept = (api: ApiDouble): void => assert.deepEqual(finalizersOf(api), ["berth.dev/engine"]);
const isFreed = async (api: ApiDouble): Promise<unknown> =>
  await until("it is freed", () => JSON.stringify(finalizersOf(api)) === "[]");

/** A person deletes the Slot: its object stays as long as it has a finalizer. */
function beginDeletion(api: ApiDouble): void {
  const object = api.get(slotPath);
  const metadata = { ...Object(object?.["metadata"]), deletionTimestamp: ending.deletionTimestamp };
  api.put(slotPath, { ...object, metadata });
}

/** Counts the checks of finalizers, each of which looks at the namespace first. */
function checksOf(api: ApiDouble, more: ApiDouble["before"] = () => undefined): () => number {
  let checks = 0;
  api.before = (method, path) => {
    if (method === "GET" && path === namespacePath) checks += 1;
    return more(method, path);
  };
  return () => checks;
}

describe("an operator that is deposed while a write is on its way", () => {
  it("writes no status over its successor's", async () => {
    const api = withSlot();
    await using deposed = await leader(api);
    deposed.loseAt("PATCH", `${slotPath}/status`);
    await assert.rejects(deposed.store.publisher.writeSlot(published("a")), LeadershipLost);
    assert.equal(api.get(slotPath)?.["status"], undefined);
  });

  it("frees the Slots of a namespace that is being deleted all the same", async () => {
    const api = withSlot(ending);
    await using deposed = await leader(api);
    deposed.loseAt("GET", namespacePath);
    api.put(namespacePath, { status: { phase: "Terminating" } });
    await isFreed(api);
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

describe("the finalizer of a Slot", { concurrency: true }, () => {
  it("stays while its object lives, also where its state is taken back, and goes with it once that is to be deleted", async () => {
    const api = withSlot();
    await using leading = await leader(api);
    const { publisher } = leading.store;
    await publisher.writeSlot(published("a"));
    await publisher.deleteSlot("a");
    isKept(api);
    await publisher.writeSlot(published("a", 2));
    beginDeletion(api);
    await until("the deletion is seen", async () => {
      await publisher.deleteSlot("a");
      return JSON.stringify(finalizersOf(api)) === "[]";
    });
  });

  it("goes where the deletion began before anything was published", async () => {
    const api = withSlot(ending);
    await using _leading = await leader(api);
    await isFreed(api);
  });

  it("stays where a status was written while its removal was on its way", async () => {
    await using leading = await leader();
    const { api } = leading;
    let attempts = 0;
    const checks = checksOf(api, (method, path) => {
      if (method !== "PATCH" || path !== slotPath) return;
      attempts += 1;
      api.put(path, { ...api.get(path), status: { record: "{}" } });
    });
    api.put(slotPath, { apiVersion, kind: "Slot", metadata: ending, spec });
    await until("its removal was tried", () => attempts > 0 && checks() > 1);
    assert.equal(attempts, 1);
    isKept(api);
  });

  it("stays where a new operator cannot replace what its predecessor published of a Slot in deletion", async () => {
    const api = withSlot();
    {
      await using earlier = await leader(api);
      await earlier.store.publisher.writeSlot(ready);
    }
    beginDeletion(api);
    await using leading = await leader(api);
    const checks = checksOf(api, (_method, path) => {
      if (path.endsWith("/secrets/berth-bearers")) throw new ApiError(403, "Forbidden", "secrets is forbidden");
    });
    const bearer = "b".repeat(40);
    const bearers = { bearerList: [{ role: "main", ordinal: 0, bearer } as const] };
    await assert.rejects(leading.store.publisher.writeSlot({ ...published("a", 2), ...bearers }), /forbidden/);
    const before = checks();
    await until("two checks have passed", () => checks() >= before + 2);
    isKept(api);
  });

  it("stays where the deletion began while its first status is on its way", async () => {
    const api = withSlot();
    await using leading = await leader(api);
    const sent = Promise.withResolvers<void>();
    const checks = checksOf(api, async (method, path) => {
      if (method === "PATCH" && path === `${slotPath}/status`) await sent.promise;
    });
    const writing = leading.store.publisher.writeSlot(published("a"));
    await until("it has its finalizer", () => JSON.stringify(finalizersOf(api)) === '["berth.dev/engine"]');
    beginDeletion(api);
    await until("it was looked at", () => checks() > 1);
    isKept(api);
    sent.resolve();
    await writing;
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
  const data = { "installation.json": JSON.stringify({ instance: store.instance }) };
  assert.deepEqual(Object(api.get(installation)?.["data"]), data);
});

describe("a Slot whose spec is broken", { concurrency: true }, () => {
  const broken = { model: { default: "m" }, idleSecond: 5 };
  const first = { uid: "first", generation: 1 };

  it("runs by its last valid spec, also for the next operator", async () => {
    const api = withSlot(first);
    {
      await using leading = await leader(api);
      await leading.store.publisher.writeSlot(published("a"));
    }
    api.put(slotPath, { ...api.get(slotPath), spec: broken });
    await using next = await leader(api);
    await using inputs = await next.store.inputs();
    const found = inputs.source.get("Slot", "a");
    assert.match(found?.diagnostics[0]?.message ?? "", /idleSecond/);
    assert.equal(found?.spec?.model.default, "m");
    assert.equal(found?.specHash, published("a").specHash);
  });

  it("has no last valid spec where it was never valid, also for the next operator", async () => {
    const api = withSlot(first);
    {
      await using leading = await leader(api);
      await leading.store.publisher.writeSlot({ ...published("a"), spec: unconfiguredSlot("a") });
    }
    api.put(slotPath, { ...api.get(slotPath), spec: broken });
    await using next = await leader(api);
    await using inputs = await next.store.inputs();
    assert.equal(inputs.source.get("Slot", "a")?.spec, undefined);
  });

  for (const isSeen of [true, false])
    it(`never runs by that of a deleted Slot of its name${isSeen ? "" : ", whose deletion nobody saw"}`, async () => {
      const api = withSlot(first);
      await using leading = await leader(api);
      await leading.store.publisher.writeSlot(published("a"));
      await using next = await leader(api);
      await using inputs = await next.store.inputs();
      const { source } = inputs;
      assert.equal(source.get("Slot", "a")?.spec?.model.default, "m");
      if (isSeen) {
        api.put(slotPath, undefined);
        await until("its deletion is seen", () => source.get("Slot", "a") === undefined);
      }
      api.put(slotPath, { apiVersion, kind: "Slot", metadata: { uid: "second", generation: 1 }, spec: broken });
      const found = await until("the new Slot is seen", () => {
        const now = source.get("Slot", "a");
        return now?.uid === "second" && now;
      });
      assert.equal(found.spec, undefined);
    });
});
