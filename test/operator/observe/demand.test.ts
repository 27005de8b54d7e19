import assert from "node:assert/strict";
import { test } from "node:test";
import type { Demand } from "../../../src/api/status.ts";
import { demandOf } from "../../../src/operator/observe/demand.ts";
import { epoch, later } from "../fixture.ts";

const gateway = (slots: Demand["slots"]): Demand => {
  const heartbeat = epoch.toISOString();
  return { schema: 1, gateway: "g", pid: 1, bootId: "b", heartbeat, incarnation: "g", beat: 1, slots };
};
const slot = { held: 1, inFlight: 1, seenRevision: 1, endpoints: [] };

test("the demand of several gateways adds up, by model", () => {
  const waiting = (held: number, inFlight: number, seconds: number): Demand => {
    const refs = [{ ref: "big", held, inFlight, waitingSince: later(seconds).toISOString() }];
    return gateway({ coder: { ...slot, refs } });
  };
  const gateways = [waiting(1, 0, 5), waiting(2, 1, 1), gateway({ coder: slot })];
  const { held, inFlight, byRef } = demandOf(gateways, "coder", later(10), undefined);
  assert.deepEqual([held, inFlight], [3, 3]);
  assert.deepEqual(Object.fromEntries(byRef), { big: { held: 3, inFlight: 1, waitingSince: later(1) } });
});

test("there is no demand for a slot called like something that every object has", () => {
  const { held, inFlight } = demandOf([gateway({})], "constructor", epoch, undefined);
  assert.deepEqual({ held, inFlight }, { held: 0, inFlight: 0 });
});

test("a request from before the slot of that name, or from ahead of the clock, is no demand for it", () => {
  const lastRequestAt = later(5).toISOString();
  const requestedAt = (now: number, since: number): Date | undefined =>
    demandOf([gateway({ coder: { ...slot, lastRequestAt } })], "coder", later(now), later(since)).lastRequestAt;
  assert.deepEqual([requestedAt(10, 4), requestedAt(10, 6), requestedAt(-3600, 4)], [later(5), undefined, undefined]);
});
