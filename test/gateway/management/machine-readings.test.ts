import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { MachineReading } from "../../../src/api/machine-reading.ts";
import { withSuggestions } from "../../../src/engines/suggestion.ts";
import { MachineReadings } from "../../../src/gateway/management/machine-readings.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { until } from "../../support/until.ts";
import { followEvents } from "./event-reader.ts";
import { site } from "./fixture.ts";

function readingOf(nth: number): MachineReading {
  return {
    read_at: new Date(Date.parse("2026-01-01T00:00:00.000Z") + nth * 5000).toISOString(),
    cpu_percent: nth,
    memory: { used_bytes: 1, free_bytes: 2 },
    gpus: [],
  };
}

describe("readings of the machine", () => {
  it("are one for all who ask within five seconds, and one at a time", async () => {
    let [nowMs, reads] = [0, 0];
    const pending: ((reading: MachineReading) => void)[] = [];
    const readings = new MachineReadings(
      () => {
        reads += 1;
        return new Promise((resolve) => pending.push(resolve));
      },
      () => nowMs,
    );
    const both = [readings.now(), readings.now()];
    assert.equal(readings.latest(), undefined);
    // The program hangs longer than the interval.
    nowMs = 6000;
    both.push(readings.now());
    assert.equal(reads, 1);
    pending[0]?.(readingOf(1));
    assert.deepEqual(await Promise.all(both), [readingOf(1), readingOf(1), readingOf(1)]);
    assert.deepEqual(readings.latest(), readingOf(1));
    assert.equal(reads, 2);
    pending[1]?.(readingOf(2));
    assert.deepEqual(await readings.now(), readingOf(2));
    nowMs = 60_000;
    // Nobody has asked for a while: what was read then says nothing of now.
    assert.equal(readings.latest(), undefined);
  });

  it("are null after a failure", async () => {
    const readings = new MachineReadings(() => Promise.reject(new Error("broken")));
    assert.equal(await readings.now(), null);
    assert.equal(readings.latest(), undefined);
  });

  it("are an event while somebody follows, and part of the hardware; nothing is read before", async () => {
    let reads = 0;
    await using gateway = await site({ gateway: { readMachine: async () => readingOf((reads += 1)) } });
    await using sets = await sharedSets(gateway.stateDir);
    await sets.hardware.publish({ schema: 1, hardware: withSuggestions(pcFacts) });
    assert.equal(reads, 0);
    using reader = await followEvents(gateway.url);
    const { data } = await reader.find("machine");
    assert.deepEqual(data, readingOf(1));
    await until("the gateway has seen the probe", async () => (await gateway.send("GET", "/api/hardware")).ok);
    assert.deepEqual(Object.keys(Object((await gateway.got("/api/hardware"))["now"])), Object.keys(readingOf(1)));
  });
});
