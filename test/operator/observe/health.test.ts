import assert from "node:assert/strict";
import { it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { SlotSpec } from "../../../src/api/slot.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import type { Observed } from "../../../src/api/workload.ts";
import type { ProbeTarget } from "../../../src/engines/engine.ts";
import { HealthRecords } from "../../../src/operator/observe/health.ts";
import type { Health } from "../../../src/operator/plan/input.ts";
import { epoch, later, observed, published, specOf } from "../fixture.ts";
import { ManualClock } from "../../doubles/clock.ts";
import { SlotMemories } from "../../../src/operator/slot-memory.ts";
import type { Probe } from "../../../src/operator/observe/probe.ts";

const healthOf = (probe: Probe, clock = new ManualClock(epoch.getTime())): HealthRecords =>
  new HealthRecords(probe, new SlotMemories(), clock);

const plain = { path: "/health", warmUp: undefined };
const warming = { path: "/health", warmUp: { path: "/v1/chat/completions", body: {} } };

interface Look {
  readonly process?: Observed;
  readonly before?: PublishedSlot;
  /** Its runtime does not answer. */
  readonly isBlind?: boolean;
}

/** Looks, and asks where that is due. */
async function look(health: HealthRecords, target: ProbeTarget, now: Date, more: Look = {}): Promise<Health> {
  const { process = observed(), before, isBlind = false } = more;
  const state = (): Health => health.stateOf(process, before, now, isBlind);
  const { probeDue } = state();
  const asked = probeDue === undefined ? undefined : health.probe(process, target, { ...probeDue, timeoutMs: 3000 });
  if (probeDue?.isAwaited === true) await asked;
  await turn();
  return state();
}

it("a failed warm-up request is sent again at growing intervals, under any change of the clock", async () => {
  using health = healthOf(async ({ body }) =>
    body === undefined ? { outcome: "healthy" } : { outcome: "failed", message: "answered 500" },
  );
  const restAt = async (now: Date): Promise<number | undefined> => {
    const { warmUpAt } = await look(health, warming, now);
    return warmUpAt === undefined ? undefined : warmUpAt.getTime() - now.getTime();
  };
  assert.equal(await restAt(epoch), undefined);
  const rests: (number | undefined)[] = [];
  for (let failure = 0; failure < 7; failure++) {
    health.warm(observed(), warming, 1000);
    await turn();
    rests.push(await restAt(later(3600)));
  }
  assert.deepEqual(rests, [250, 500, 1000, 2000, 4000, 5000, 5000]);
  assert.equal(await restAt(epoch), 5000, "a clock that was set back makes nobody wait for an hour");
});

/** When a warm engine is probed that became so 0.3 s after the epoch, in seconds, within 11.7 s; `edit`: after 5.5 s. */
async function probedAt(intervalSeconds: number, edit = intervalSeconds): Promise<readonly number[]> {
  const clock = new ManualClock(later(0.3).getTime());
  const probes: number[] = [];
  using health = healthOf(async () => {
    probes.push((clock.now().getTime() - epoch.getTime()) / 1000);
    return { outcome: "healthy" };
  }, clock);
  const every = (seconds: number): SlotSpec => ({
    ...specOf(),
    probe: { ...specOf().probe, intervalSeconds: seconds },
  });
  await look(health, plain, clock.now());
  for (let tenth = 3; tenth < 117; tenth++) {
    health.follow("primary", [[observed(), plain]], every(tenth < 55 ? intervalSeconds : edit));
    clock.advance(100);
    await turn();
  }
  health.follow("primary", [], specOf());
  clock.advance(60_000);
  return probes;
}

it("a warm engine is probed on whole seconds, where many are asked together, and never later than its interval", async () => {
  assert.deepEqual(await probedAt(5), [0.3, 5, 10]);
  assert.deepEqual(await probedAt(2.5), [0.3, 2, 4, 6, 8, 10]);
  assert.deepEqual((await probedAt(0.5)).slice(0, 4), [0.3, 0.8, 1.3, 1.8]);
  assert.deepEqual(await probedAt(10, 2), [0.3, 7, 9, 11], "also after an edit");
});

it("an edit of the interval while a probe waits for its answer begins no second row of probes", async () => {
  const clock = new ManualClock(epoch.getTime());
  let probes = 0;
  let answer = (): void => undefined;
  using health = healthOf(async () => {
    probes += 1;
    if (probes === 2) await new Promise<void>((resolve) => (answer = resolve));
    return { outcome: "healthy" };
  }, clock);
  const every = (seconds: number): SlotSpec => ({
    ...specOf(),
    probe: { ...specOf().probe, intervalSeconds: seconds },
  });
  await look(health, plain, clock.now());
  health.follow("primary", [[observed(), plain]], every(5));
  clock.advance(6000);
  health.follow("primary", [[observed(), plain]], every(2));
  answer();
  await turn();
  for (let second = 0; second < 10; second++) {
    clock.advance(1000);
    await turn();
  }
  assert.equal(probes, 2 + 5);
});

it("a warm-up request does not delay a slot while its runtime does not answer", { timeout: 180_000 }, async () => {
  using health = healthOf(({ body }) =>
    body === undefined ? Promise.resolve({ outcome: "healthy" }) : new Promise(() => undefined),
  );
  await look(health, warming, epoch, { isBlind: true });
  health.warm(observed(), warming, 600_000);
  const { isHealthy, isWarm } = await look(health, warming, later(1), { isBlind: true });
  assert.deepEqual([isHealthy, isWarm], [true, false]);
});

it("an engine whose socket is open again is as healthy as before; a paused container has lost nothing", async () => {
  using health = healthOf(async () => ({ outcome: "healthy" }));
  const lookAt = async (isListening: boolean, seconds: number): Promise<readonly unknown[]> => {
    const process = observed({ isListening });
    const { isWarm, lostAt } = await look(health, plain, later(seconds), { process, before: published() });
    return [isWarm, lostAt === undefined];
  };
  assert.deepEqual(await lookAt(true, 0), [true, true]);
  assert.deepEqual(await lookAt(false, 1), [true, false]);
  assert.deepEqual(await lookAt(true, 2), [true, true]);
  const paused = observed({ isListening: false, drift: { reason: "Paused", message: "" } });
  assert.equal(health.stateOf(paused, undefined, epoch).lostAt, undefined);
});

it("an engine that refuses its warm-up request is known to refuse it", async () => {
  using health = healthOf(async ({ body }) =>
    body === undefined ? { outcome: "healthy" } : { outcome: "failed", message: "no such role", isRefused: true },
  );
  await look(health, warming, epoch);
  health.warm(observed(), warming, 1000);
  await turn();
  assert.equal((await look(health, warming, later(1))).isRefused, true);
});
