import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bootId } from "../../../src/lib/boot-id.ts";
import { LivenessWatch, type Heartbeat } from "../../../src/store/state/liveness.ts";

const start = Date.parse("2026-11-22T12:00:00.000Z");

class Reader {
  elapsedMs = 0;
  /** How far the wall clock was set. */
  setByMs = 0;
  readonly watch = new LivenessWatch({
    now: () => new Date(start + this.elapsedMs + this.setByMs),
    elapsedMs: () => this.elapsedMs,
  });

  see(heartbeat: Heartbeat): string {
    this.watch.note(new Map([["a", heartbeat]]));
    return this.watch.of("a", heartbeat);
  }
}

const at = (ms: number): string => new Date(start + ms).toISOString();
const here = (ms: number, more: Partial<Heartbeat> = {}): Heartbeat => ({
  heartbeat: at(ms),
  bootId: bootId(),
  ...more,
});
const elsewhere = (ms: number, more: Partial<Heartbeat> = {}): Heartbeat => here(ms, { bootId: "another", ...more });

describe("a publisher", () => {
  it("of this boot is trusted at first as long as its time is fresh", () => {
    assert.equal(new Reader().see(here(-4000)), "live");
    assert.equal(new Reader().see(here(-6000)), "stale");
    assert.equal(new Reader().see(here(6000)), "stale", "a clock was set back since");
  });

  it("of another machine, or of before a reboot, is unproven until its heartbeat is seen to change", () => {
    const reader = new Reader();
    const one = { incarnation: "i", beat: 1 };
    assert.equal(reader.see(elsewhere(0, one)), "unproven");
    reader.elapsedMs = 60_000;
    assert.equal(reader.see(elsewhere(0, one)), "unproven", "nothing was heard since");
    assert.equal(reader.see(elsewhere(1000, { ...one, beat: 2 })), "live");
  });

  it("is live by this reader's clock, however far the publisher's is off", () => {
    const reader = new Reader();
    const year = 365 * 24 * 3_600_000;
    reader.see(elsewhere(-year, { incarnation: "i", beat: 1 }));
    assert.equal(reader.see(elsewhere(-year, { incarnation: "i", beat: 2 })), "live");
    reader.elapsedMs = 4999;
    reader.setByMs = year;
    assert.equal(reader.see(elsewhere(-year, { incarnation: "i", beat: 2 })), "live");
    reader.elapsedMs = 5000;
    reader.setByMs = -year;
    assert.equal(reader.see(elsewhere(-year, { incarnation: "i", beat: 2 })), "stale");
  });

  it("is live by its count, where the clock of its time was set back to the same time", () => {
    const reader = new Reader();
    reader.see(here(0, { incarnation: "i", beat: 1 }));
    reader.elapsedMs = 20_000;
    assert.equal(reader.see(here(0, { incarnation: "i", beat: 2 })), "live");
  });

  it("is live after another start, although the count begins again", () => {
    const reader = new Reader();
    reader.see(elsewhere(0, { incarnation: "i", beat: 1 }));
    assert.equal(reader.see(elsewhere(0, { incarnation: "j", beat: 1 })), "live");
  });

  it("is live by its times where it is of an earlier version", () => {
    const reader = new Reader();
    assert.equal(reader.see(elsewhere(0)), "unproven");
    assert.equal(reader.see(elsewhere(1000)), "live");
    reader.elapsedMs = 6000;
    assert.equal(reader.see(elsewhere(1000)), "stale");
  });

  it("that was gone counts as new when it returns", () => {
    const reader = new Reader();
    reader.see(elsewhere(0));
    reader.see(elsewhere(1000));
    reader.watch.note(new Map());
    assert.equal(reader.see(elsewhere(2000)), "unproven");
  });
});
