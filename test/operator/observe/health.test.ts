import assert from "node:assert/strict";
import { it } from "node:test";
import type { ProbeTarget } from "../../../src/engines/engine.ts";
import { HealthRecords } from "../../../src/operator/observe/health.ts";
import type { Health } from "../../../src/operator/plan/input.ts";
import { epoch, later, observed, published, specOf } from "../fixture.ts";

const spec = specOf();

/** Looks, and asks where that is due. */
async function look(
  health: HealthRecords,
  target: ProbeTarget,
  now: Date,
  { isBlind = false, spec: given = spec } = {},
): Promise<Health> {
  const { probeDue } = health.stateOf(observed(), given, undefined, now, isBlind);
  const asked =
    probeDue === undefined ? undefined : health.probe(observed(), target, { ...probeDue, timeoutMs: 3000, now });
  if (probeDue?.isAwaited === true) await asked;
  return health.stateOf(observed(), given, undefined, now, isBlind);
}

it("a failed warm-up request is sent again at growing intervals, under any change of the clock", async () => {
  using health = new HealthRecords(async ({ body }) =>
    body === undefined ? { outcome: "healthy" } : { outcome: "failed", message: "answered 500" },
  );
  const target = { path: "/health", warmUp: { path: "/v1/chat/completions", body: {} } };
  const restAt = async (now: Date): Promise<number | undefined> => {
    const { warmUpAt } = await look(health, target, now);
    return warmUpAt === undefined ? undefined : warmUpAt.getTime() - now.getTime();
  };
  const warmUp = async (): Promise<void> => {
    health.warm(observed(), target, 1000);
    await new Promise((resolve) => setImmediate(resolve));
  };
  await restAt(epoch);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(await restAt(epoch), undefined);
  const rests: (number | undefined)[] = [];
  for (let failure = 0; failure < 7; failure++) {
    await warmUp();
    rests.push(await restAt(later(3600)));
  }
  assert.deepEqual(rests, [250, 500, 1000, 2000, 4000, 5000, 5000]);
  assert.equal(await restAt(epoch), 5000, "a clock that was set back makes nobody wait for an hour");
});

it("an engine is probed on when the clock is set back", async () => {
  let probes = 0;
  using health = new HealthRecords(async () => {
    probes += 1;
    return { outcome: "healthy" };
  });
  const lookAt = async (now: Date): Promise<void> => {
    await look(health, { path: "/health", warmUp: undefined }, now);
    await new Promise((resolve) => setImmediate(resolve));
  };
  await lookAt(later(3600));
  await lookAt(later(3601));
  assert.equal(probes, 1);
  await lookAt(epoch);
  assert.equal(probes, 2);
});

it("an engine is probed on whole seconds, where many are asked together, and never later than its interval", async () => {
  const probedAt = async (intervalSeconds: number): Promise<readonly number[]> => {
    const probes: number[] = [];
    let at = 300;
    using health = new HealthRecords(async () => {
      probes.push(at);
      return { outcome: "healthy" };
    });
    const often = { ...spec, probe: { ...spec.probe, intervalSeconds } };
    for (; at < 12_000; at += 100) {
      const now = new Date(at);
      await look(health, { path: "/health", warmUp: undefined }, now, { spec: often });
      await new Promise((resolve) => setImmediate(resolve));
    }
    return probes;
  };
  assert.deepEqual(await probedAt(5), [300, 5000, 10_000]);
  assert.deepEqual(await probedAt(2.5), [300, 2000, 4000, 6000, 8000, 10_000]);
  assert.deepEqual((await probedAt(0.5)).slice(0, 4), [300, 800, 1300, 1800]);
});

it("a warm-up request does not delay a slot while its runtime does not answer", { timeout: 180_000 }, async () => {
  using health = new HealthRecords(({ body }) =>
    body === undefined ? Promise.resolve({ outcome: "healthy" }) : new Promise(() => undefined),
  );
  const target = { path: "/health", warmUp: { path: "/v1/chat/completions", body: {} } };
  await look(health, target, epoch, { isBlind: true });
  health.warm(observed(), target, 600_000);
  const { isHealthy, isWarm } = await look(health, target, later(1), { isBlind: true });
  assert.deepEqual([isHealthy, isWarm], [true, false]);
});

it("an engine whose socket is open again is as healthy as before; a paused container has lost nothing", async () => {
  using health = new HealthRecords(async () => ({ outcome: "healthy" }));
  const lookAt = async (isListening: boolean, seconds: number): Promise<readonly unknown[]> => {
    const target = { path: "/health", warmUp: undefined };
    const [process, now] = [observed({ isListening }), later(seconds)];
    const { probeDue } = health.stateOf(process, spec, published(), now);
    if (probeDue !== undefined) await health.probe(process, target, { ...probeDue, timeoutMs: 3000, now });
    const { isWarm, lostAt } = health.stateOf(process, spec, published(), now);
    return [isWarm, lostAt === undefined];
  };
  assert.deepEqual(await lookAt(true, 0), [true, true]);
  assert.deepEqual(await lookAt(false, 1), [true, false]);
  assert.deepEqual(await lookAt(true, 2), [true, true]);
  const paused = observed({ isListening: false, drift: { reason: "Paused", message: "" } });
  assert.equal(health.stateOf(paused, spec, undefined, epoch).lostAt, undefined);
});
