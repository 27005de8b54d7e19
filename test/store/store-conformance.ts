import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { GatewayStore, LeaderStore, OperatorInputs, Store } from "../../src/store/opened-store.ts";
import type { Lease, OperatorReport } from "../../src/store/store.ts";
import type { SlotRequest } from "../../src/api/status.ts";
import { upstreamSpecSchema } from "../../src/api/upstream.ts";
import { model } from "../engines/fixture.ts";
import { until } from "../support/until.ts";
import { published } from "./published-slot.ts";

/** A fresh, empty store. */
export interface StoreUnderTest extends AsyncDisposable {
  /** As another process would open it. */
  open(): Store;
  /** Another operator leads from now on, whoever has led. */
  seize(): Promise<void>;
}

const quiet = { onWarning: () => undefined, onUnknown: () => undefined };
const leading = { ...quiet, onLost: () => undefined };

interface Leader extends AsyncDisposable {
  readonly lease: Lease;
  readonly store: LeaderStore;
  readonly inputs: OperatorInputs;
}

async function lead(under: StoreUnderTest): Promise<Leader> {
  await using stack = new AsyncDisposableStack();
  const store = under.open();
  const lease = stack.use(await store.lead(leading));
  const leader = await store.forLeader(lease, quiet);
  const inputs = stack.use(await leader.inputs());
  const owned = stack.move();
  return { lease, store: leader, inputs, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function gateway(under: StoreUnderTest, name: string): Promise<GatewayStore> {
  return await under
    .open()
    .forGateway({ ...quiet, gateway: name, onDiscoveredError: (error) => assert.fail(String(error)) });
}

const report: OperatorReport = {
  schema: 1,
  instance: "i",
  pid: process.pid,
  bootId: "b",
  startedAt: "2026-01-01T00:00:00.000Z",
  isPaused: false,
  isSettled: true,
  slotCount: 0,
  configDir: "/c",
  problems: [],
};
const wish = { held: 1, inFlight: 0, seenRevision: 0, endpoints: [] };

/** What every store promises to operators, gateways and tools. */
export function describeStore(title: string, open: () => Promise<StoreUnderTest>): void {
  describe(`${title}: leadership`, { concurrency: true }, () => {
    it("belongs to one operator of many, which reads demand until its end", async () => {
      await using under = await open();
      assert.equal(await under.open().leader(), undefined);
      const first = await under.open().lead(leading);
      first.check();
      assert.equal(await under.open().leader(), process.pid);
      await assert.rejects(under.open().lead(leading), { name: "LockHeld", pid: process.pid });
      await first[Symbol.asyncDispose]();
      assert.equal(await under.open().leader(), undefined);
      assert.throws(() => first.check(), { name: "LeadershipLost" });
      await using second = await under.open().lead(leading);
      second.check();
    });

    it("passes to exactly one standby when the leader ends", async () => {
      await using under = await open();
      const first = await under.open().lead(leading);
      const { signal } = new AbortController();
      const heard: number[] = [];
      const onWaiting = (pid: number): void => void heard.push(pid);
      const waiting = [1, 2, 3].map(() => under.open().lead({ ...leading, standby: { onWaiting, signal } }));
      await until("all wait", () => heard.length === 3);
      assert.deepEqual(new Set(heard), new Set([process.pid]));
      await first[Symbol.asyncDispose]();
      let ended = 0;
      for (let left = waiting; left.length > 0; ended++) {
        const next = await Promise.race(left.map(async (each) => ({ lease: await each, each })));
        next.lease.check();
        left = left.filter((each) => each !== next.each);
        const others = await Promise.race([...left, Promise.resolve("nobody else")]);
        assert.equal(others, "nobody else");
        await next.lease[Symbol.asyncDispose]();
      }
      assert.equal(ended, 3);
    });

    it("does not pass to a standby that has given up waiting", async () => {
      await using under = await open();
      await using _first = await under.open().lead(leading);
      const stop = new AbortController();
      const onWaiting = (): void => stop.abort(new Error("enough"));
      await assert.rejects(under.open().lead({ ...leading, standby: { onWaiting, signal: stop.signal } }));
    });

    it("ends for an operator once another operator leads, and that operator is notified once", async () => {
      await using under = await open();
      const store = under.open();
      let losses = 0;
      await using lease = await store.lead({ ...quiet, onLost: () => (losses += 1) });
      const { publisher } = await store.forLeader(lease, quiet);
      await publisher.writeSlot(published("a"));
      await under.seize();
      await until("the loss is seen", () => {
        try {
          lease.check();
          return false;
        } catch {
          return true;
        }
      });
      for (const write of [
        () => publisher.writeSlot(published("a", 2)),
        () => publisher.deleteSlot("a"),
        () => publisher.writeOperator(report),
        () => publisher.writeRegistry({ schema: 1, models: [], upstreams: [], resources: [] }),
      ])
        await assert.rejects(write, { name: "LeadershipLost" });
      await until("it is told", () => losses > 0);
      await using reader = await gateway(under, "g");
      assert.deepEqual([reader.published.slot("a")?.revision, reader.published.operatorLiveness()], [1, "absent"]);
      assert.equal(losses, 1);
    });
  });

  describe(`${title}: what the operator publishes`, { concurrency: true }, () => {
    it("reaches gateways with what changed, and the next operator", async () => {
      await using under = await open();
      await using reader = await gateway(under, "g");
      const told: string[] = [];
      using _watch = reader.published.watch(({ slots }) => told.push(...slots));
      let instance: string;
      {
        await using leader = await lead(under);
        assert.deepEqual(leader.store.before, { slots: [], registry: undefined, boot: undefined });
        const { publisher } = leader.store;
        await publisher.writeSlot(published("a"));
        await publisher.writeSlot(published("b"));
        await publisher.writeRegistry({ schema: 1, models: [], upstreams: [], resources: [] });
        await publisher.writeOperator(report);
        await publisher.deleteSlot("b");
        await until("all of it", () => reader.published.slot("a") && reader.published.operator());
        await until("that one is gone", () => reader.published.slot("b") === undefined);
        assert.ok(told.includes("a") && told.every((name) => name === "a" || name === "b"));
        ({ instance } = leader.store);
      }
      await using next = await lead(under);
      const { slots, registry, boot } = next.store.before;
      assert.deepEqual([slots, registry?.resources, boot], [[published("a")], [], "b"]);
      assert.equal(next.store.instance, instance, "engines carry it");
    });

    it("is known of models to a gateway that asks, before it is told", async () => {
      await using under = await open();
      await using reader = await gateway(under, "g");
      await using leader = await lead(under);
      for (let round = 0; round < 5; round++) {
        const upstreams = [{ name: `u${round}`, spec: upstreamSpecSchema.parse({ baseUrl: "https://u.test" }) }];
        await leader.store.publisher.writeRegistry({ schema: 1, models: [], upstreams, resources: [] });
        await reader.published.refreshRegistry();
        assert.deepEqual(reader.published.registry().upstreams, upstreams);
      }
    });

    it("reaches gateways with thousands of models", async () => {
      await using under = await open();
      await using leader = await lead(under);
      await using reader = await gateway(under, "g");
      const models = Array.from({ length: 2000 }, (_, nth) => {
        const path = `/models/${"a-long-directory/".repeat(40)}model-${nth}.gguf`;
        return model({ ref: `model-${nth}`, path, files: [path], source: `file://${path}` });
      });
      assert.ok(JSON.stringify(models).length > 2 * 1024 * 1024);
      for (const count of [2000, 2]) {
        const found = models.slice(0, count);
        await leader.store.publisher.writeRegistry({ schema: 1, models: found, upstreams: [], resources: [] });
        await until(`${count} are read`, () => reader.published.registry().models.length === count, 30_000);
        assert.deepEqual(reader.published.registry().models, found);
      }
    });

    it("reaches gateways with the bearer of an engine, and without it once the engine has ended", async () => {
      await using under = await open();
      await using leader = await lead(under);
      await using reader = await gateway(under, "g");
      const bearer = "b".repeat(40);
      const bearers = { bearerList: [{ role: "main", ordinal: 0, bearer } as const] };
      await leader.store.publisher.writeSlot({ ...published("a", 1), ...bearers });
      await until("its bearer is read", () => reader.published.slot("a")?.bearerList?.[0]?.bearer === bearer);
      await leader.store.publisher.writeSlot(published("a", 2));
      await until("its end is read", () => reader.published.slot("a")?.revision === 2, 30_000);
      assert.equal(reader.published.slot("a")?.bearerList, undefined);
    });

    it("bears the incarnation of its operator and a count, by which readers know that the operator lives", async () => {
      await using under = await open();
      await using reader = await gateway(under, "g");
      const { published: seen } = reader;
      assert.equal(seen.operatorLiveness(), "absent");
      const heard: (readonly [string | undefined, number | undefined])[] = [];
      for (const _start of [1, 2]) {
        await using leader = await lead(under);
        for (const _beat of [1, 2]) {
          await leader.store.publisher.writeOperator(report);
          const isNew = (): boolean => {
            const { incarnation, beat } = seen.operator() ?? {};
            if (heard.some(([other, count]) => other === incarnation && count === beat)) return false;
            heard.push([incarnation, beat]);
            return true;
          };
          await until("the heartbeat", () => seen.operator() !== undefined && isNew());
        }
        assert.equal(seen.operatorLiveness(), "live");
      }
      const [first, second, third, fourth] = heard;
      assert.ok(first?.[0] !== undefined && first[0] === second?.[0] && third?.[0] === fourth?.[0]);
      assert.notEqual(first[0], third?.[0]);
      assert.ok(Number(second?.[1]) > Number(first[1]) && Number(fourth?.[1]) > Number(third?.[1]));
    });
  });

  describe(`${title}: demand and requests`, { concurrency: true }, () => {
    it("reach the operator that leads, each gateway's for itself, until the gateway withdraws its own", async () => {
      await using under = await open();
      await using leader = await lead(under);
      await using one = await gateway(under, "one");
      await using two = await gateway(under, "two");
      const { demand } = leader.inputs;
      const told: string[] = [];
      using _watch = demand.watch((slots) => told.push(...slots));
      await one.demand.write({ slots: { a: wish } });
      await two.demand.write({ slots: { b: wish } });
      const names = (): readonly string[] => demand.list().map((each) => each.gateway);
      await until("both", () => names().length === 2);
      assert.deepEqual(names().toSorted(), ["one", "two"]);
      assert.equal(new Set(demand.list().map(({ incarnation }) => incarnation)).size, 2);
      await until("both are told", () => told.includes("a") && told.includes("b"));
      await one.demand[Symbol.asyncDispose]();
      await until("one has gone", () => names().length === 1);
      await two.demand[Symbol.asyncDispose]();
    });

    it("reach every other gateway, for people, and not the one that tells them", async () => {
      await using under = await open();
      await using one = await gateway(under, "one");
      await using two = await gateway(under, "two");
      await one.demand.write({ slots: { a: wish } });
      await two.demand.write({ slots: { a: { ...wish, held: 0, inFlight: 3 } } });
      const told = (by: GatewayStore): unknown =>
        by.others.list().map(({ gateway: name, slots: { a } }) => [name, a?.held, a?.inFlight]);
      await until("one knows of two", () => JSON.stringify(told(one)) === '[["two",0,3]]');
      await until("two knows of one", () => JSON.stringify(told(two)) === '[["one",1,0]]');
      await one.demand[Symbol.asyncDispose]();
      await until("one has gone", () => two.others.list().length === 0);
      await two.demand[Symbol.asyncDispose]();
    });

    it("outlive the operator: a request is kept for the next operator, and removed by its token", async () => {
      await using under = await open();
      await using requester = await gateway(under, "g");
      const requestedAt = report.startedAt;
      const request: SlotRequest = { schema: 1, slot: "a", kind: "restart", specHash: "h", token: "t", requestedAt };
      await requester.requests.put(request);
      await using leader = await lead(under);
      const { requests } = leader.inputs;
      assert.deepEqual(requests.list("a"), [request]);
      await requester.requests.put({ ...request, token: "u" });
      await requests.remove("a", "restart", "t");
      assert.equal(requests.list("a")[0]?.token, "u");
      await requests.remove("a", "restart", "u");
      await until("the gateway sees it", () => requester.requests.list("a").length === 0);
    });
  });

  it(`${title}: a token that a tool makes is good for gateways, and no more once it is revoked`, async () => {
    await using under = await open();
    await using reader = await gateway(under, "g");
    await using tool = await under.open().tokens();
    const { id } = await tool.create({ label: "l", scope: "read-only" });
    assert.deepEqual(
      (await reader.tokens.list()).map((each) => each.id),
      [id],
    );
    await tool.revoke(id);
    assert.deepEqual(await reader.tokens.list(), []);
  });
}
