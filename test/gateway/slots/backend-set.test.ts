import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BackendSet, type BackendLease, type BackendUser } from "../../../src/gateway/slots/backend-set.ts";
import type { Endpoint } from "../../../src/gateway/slots/availability.ts";
import { fc } from "../../support/fast-check.ts";
import { EnginePool } from "../../../src/engine-client/client.ts";

const at = (ordinal: number, process = "first", host = "127.0.0.1"): Endpoint => ({
  host,
  port: 8081 + ordinal,
  process,
  ordinal,
});

interface Site {
  readonly set: BackendSet;
  readonly closed: string[];
  freed: number;
  drained: number;
  now: number;
}

function siteOf(endpoints: readonly Endpoint[], max = Infinity): Site {
  const closed: string[] = [];
  const site: Site = {
    closed,
    freed: 0,
    drained: 0,
    now: 0,
    set: new BackendSet({
      open({ host, port, process }) {
        const pool = new EnginePool({ host, port });
        pool.close = () => void closed.push(`${host}:${port} ${process}`);
        return pool;
      },
      onFree: () => (site.freed += 1),
      onDrained: () => (site.drained += 1),
      now: () => site.now,
    }),
  };
  site.set.update(endpoints, max);
  return site;
}

function conversation(...words: readonly string[]): BackendUser {
  const messages = words.map((content, turn) => ({ role: turn % 2 === 0 ? "user" : "assistant", content }));
  const body = Buffer.from(JSON.stringify(messages));
  return { prompt: { body, start: 0 } };
}

const ordinal = (lease: BackendLease): number => lease.backend.endpoint.ordinal;
const inFlight = (set: BackendSet): number[] => [...set.all()].map((backend) => backend.inFlight);
const ordinals = (leases: readonly BackendLease[]): number[] => leases.map(ordinal);

describe("BackendSet", () => {
  it("gives a request to the backend with the fewest in flight, and among equals to the one idle longest", () => {
    const { set } = siteOf([at(0), at(1), at(2)]);
    const leases = Array.from({ length: 5 }, () => set.acquire({}));
    assert.deepEqual(ordinals(leases), [0, 1, 2, 0, 1]);
    leases[2]?.release();
    leases[0]?.release();
    // 1 has two in flight, 0 has one, 2 has none.
    assert.deepEqual(ordinals([set.acquire({}), set.acquire({})]), [2, 0]);
  });

  it("frees exactly the place that was taken, once", () => {
    const site = siteOf([at(0), at(1)]);
    const { set } = site;
    const [first, second] = [set.acquire({}), set.acquire({})];
    first.release();
    first.release();
    assert.equal(site.freed, 1);
    assert.deepEqual(inFlight(set), [0, 1]);
    second.release();
    assert.equal(set.inFlight, 0);
  });

  it("gives a conversation back to the backend that has it cached", () => {
    const { set } = siteOf([at(0), at(1), at(2)]);
    const turns = ["a", "b", "c"].map((name) => conversation(`${name}: hello`));
    const first = turns.map((prompt) => set.acquire(prompt));
    assert.deepEqual(ordinals(first), [0, 1, 2]);
    for (const lease of first) lease.release();
    for (const [index, name] of ["c", "a", "b"].entries()) {
      const lease = set.acquire(conversation(`${name}: hello`, "good day", "and now?"));
      assert.equal(ordinal(lease), [2, 0, 1][index], name);
      lease.release();
    }
  });

  it("gives a conversation to another backend where its own is busy beyond the bound, and keeps it there", () => {
    const { set } = siteOf([at(0), at(1)]);
    const own = set.acquire(conversation("hello"));
    const second = set.acquire(conversation("hello"));
    assert.deepEqual(ordinals([own, second]), [0, 0], "one in flight is no reason to leave");
    const third = set.acquire(conversation("hello"));
    assert.equal(ordinal(third), 1, "two are, beside a backend that is idle");
    for (const lease of [own, second, third]) lease.release();
    assert.equal(ordinal(set.acquire(conversation("hello", "yes", "go on"))), 1);
  });

  it("avoids a backend that has failed, until a status or some time says otherwise", () => {
    const site = siteOf([at(0), at(1)]);
    const { set } = site;
    const lease = set.acquire({});
    lease.fail();
    lease.release();
    const spared = [set.acquire({}), set.acquire({})];
    assert.deepEqual(ordinals(spared), [1, 1]);
    for (const each of spared) each.release();
    set.forgetFailures();
    const again = set.acquire({});
    assert.equal(ordinal(again), 0);
    again.fail();
    site.now += 10_000;
    set.acquire({});
    assert.equal(ordinal(set.acquire({})), 0);
  });

  it("moves a request to another backend, unless every other backend fails or is full", () => {
    const { set } = siteOf([at(0), at(1), at(2)]);
    const lease = set.acquire({});
    lease.fail();
    assert.equal(lease.move(), true);
    assert.equal(ordinal(lease), 1);
    lease.fail();
    assert.equal(lease.move(), true);
    assert.equal(ordinal(lease), 2);
    lease.fail();
    assert.equal(lease.move(), false);
    assert.equal(set.inFlight, 1);
    lease.release();
    assert.equal(lease.move(), false, "what is released has no place to exchange");
    assert.deepEqual(inFlight(set), [0, 0, 0]);
  });

  it("tries each backend once for a request, however long each takes to fail", () => {
    const site = siteOf([at(0), at(1)]);
    const lease = site.set.acquire({});
    lease.fail();
    assert.equal(lease.move(), true);
    site.now += 5000;
    lease.fail();
    assert.equal(lease.move(), false, "the first one is no better for being failed long ago");
  });

  it("counts the silence of a backend from the first request that it gets, also by an exchange", () => {
    const site = siteOf([at(0), at(1)]);
    const silentSince = (): number[] => [...site.set.all()].map(({ lastByteAt }) => lastByteAt);
    site.now = 1000;
    const lease = site.set.acquire({});
    assert.deepEqual(silentSince(), [1000, 0]);
    site.now = 3000;
    lease.fail();
    lease.move();
    assert.deepEqual(silentSince(), [1000, 3000]);
  });

  it("drains a backend that is published as ready no more, and closes its connections with the last request", () => {
    const site = siteOf([at(0), at(1)]);
    const { set, closed } = site;
    const leases = [set.acquire({}), set.acquire({})];
    set.update([at(0)], Infinity);
    assert.deepEqual([set.size, set.inFlight, closed.length, site.drained], [1, 1, 0, 0]);
    assert.equal(ordinal(set.acquire({})), 0, "the other one takes nothing new");
    leases[1]?.release();
    assert.deepEqual([closed, site.drained, site.freed], [["127.0.0.1:8082 first"], 1, 0], "its place makes no room");
    assert.deepEqual(inFlight(set), [2]);
  });

  it("keeps the count of requests of a backend that is ready again before it was drained", () => {
    const site = siteOf([at(0), at(1)]);
    const { set } = site;
    const leases = [set.acquire({}), set.acquire({})];
    set.update([at(0)], Infinity);
    set.update([at(0), at(1)], Infinity);
    assert.equal(set.inFlight, 2);
    leases[1]?.release();
    assert.deepEqual([site.closed.length, site.drained, site.freed], [0, 0, 1]);
  });

  it("treats another start of an engine, and the same port at another host, as other backends", () => {
    const { set, closed } = siteOf([at(0), at(0, "first", "10.0.0.2")]);
    const [here, there] = set.all();
    assert.notEqual(here?.pool, there?.pool);
    set.update([at(0, "second")], Infinity);
    assert.deepEqual(closed, ["127.0.0.1:8081 first", "10.0.0.2:8081 first"]);
    assert.notEqual([...set.all()][0], here);
  });

  it("forgets a backend's cached prefixes when its engine ends", () => {
    const { set } = siteOf([at(0), at(1)]);
    set.acquire(conversation("hello")).release();
    set.update([at(0, "second"), at(1)], Infinity);
    set.acquire({}).release();
    // The new engine was never chosen: it comes first among equals.
    assert.equal(ordinal(set.acquire(conversation("hello"))), 1);
  });

  it("has requests beside the queue: they take none, and a backend that is not ready any more waits for their end", () => {
    const site = siteOf([at(0)], 1);
    const { set } = site;
    const leases = [set.acquireUnqueued("a browser"), set.acquireUnqueued("another")];
    assert.deepEqual([set.inFlight, site.freed], [0, 0]);
    set.update([], 1);
    assert.equal(set.acquireUnqueued("a third"), undefined);
    leases[0]?.[Symbol.dispose]();
    leases[0]?.[Symbol.dispose]();
    assert.deepEqual([site.drained, site.closed], [0, []]);
    leases[1]?.[Symbol.dispose]();
    assert.deepEqual([site.drained, site.freed, site.closed.length, [...set.all()].length], [1, 0, 1, 0]);
  });

  it("gives each browser the same backend each time, and browsers to all backends, without those that drain", () => {
    const { set } = siteOf([at(0), at(1)]);
    const placesOf = (): (number | undefined)[] =>
      Array.from({ length: 12 }, (_, nth) => set.acquireUnqueued(`browser ${nth}`)?.backend.endpoint.ordinal);
    const places = placesOf();
    assert.deepEqual(new Set(places), new Set([0, 1]));
    assert.deepEqual(placesOf(), places);
    set.update([at(1)], Infinity);
    assert.deepEqual(new Set(placesOf()), new Set([1]));
  });

  it("counts right, and never exceeds the places, under any sequence of events", () => {
    const act = fc.oneof(
      fc.record({ do: fc.constant("acquire" as const), word: fc.constantFrom("a", "b", "c", undefined) }),
      fc.record({ do: fc.constantFrom("release" as const, "fail" as const, "move" as const), nth: fc.nat(9) }),
      fc.record({ do: fc.constant("update" as const), ready: fc.subarray([0, 1, 2, 3]) }),
    );
    fc.assert(
      fc.property(fc.array(act, { maxLength: 60 }), fc.integer({ min: 1, max: 3 }), (acts, max) => {
        const { set } = siteOf([at(0), at(1)], max);
        const open: BackendLease[] = [];
        for (const each of acts) {
          if (each.do === "acquire") {
            if (set.inFlight >= set.size * max) continue;
            open.push(set.acquire(each.word === undefined ? {} : conversation(each.word)));
          } else if (each.do === "update") {
            set.update(
              each.ready.map((nth) => at(nth)),
              max,
            );
          } else {
            const index = each.nth % Math.max(1, open.length);
            const lease = open[index];
            if (lease === undefined) continue;
            if (each.do === "release") {
              lease.release();
              open.splice(index, 1);
            } else lease[each.do]();
          }
          const all = [...set.all()];
          for (const backend of all) {
            assert.ok(backend.inFlight <= max);
            assert.equal(backend.inFlight, open.filter((lease) => lease.backend === backend).length);
          }
          assert.equal(
            all.reduce((sum, { inFlight }) => sum + inFlight, 0),
            open.length,
          );
        }
      }),
    );
  });
});
