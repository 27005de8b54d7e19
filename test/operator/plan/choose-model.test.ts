import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  chooseModel,
  type ChoiceFacts,
  type ModelDemand,
  type Residence,
} from "../../../src/operator/plan/choose-model.ts";
import { fc } from "../../support/fast-check.ts";

const waits = (waitedMs: number, held = 1): ModelDemand => ({ held, inFlight: 0, waitedMs });
const works: ModelDemand = { held: 0, inFlight: 1, waitedMs: 0 };
const ready = (ref: string, readyMs: number, wasUsed = true): Residence => ({ phase: "ready", ref, readyMs, wasUsed });
const loading: Residence = { phase: "loading", ref: "a" };

/** Model a has been loaded for a minute, and nobody asks for any. */
const usual: ChoiceFacts = {
  refs: ["a", "b", "c"],
  chosen: "a",
  residence: ready("a", 60_000),
  isFetching: false,
  isFailing: false,
  isOrdered: false,
  demand: new Map(),
  barredMs: new Map(),
  maxWaitMs: 60_000,
  minResidencyMs: 10_000,
};

function decide(demand: Readonly<Record<string, ModelDemand>>, more: Partial<ChoiceFacts> = {}): string {
  const { ref, requeueMs, reason } = chooseModel({ ...usual, demand: new Map(Object.entries(demand)), ...more });
  return [ref, ...(requeueMs === undefined ? [] : [`again in ${requeueMs / 1000} s`]), reason ?? []].flat().join("; ");
}

describe("which of its models a slot holds", () => {
  const idle = "b; b is requested, and a is idle";
  const table: Readonly<Record<string, readonly [told: string, expected: string]>> = {
    "no request names another model": [decide({ a: works }), "a"],
    "the loaded one is idle": [decide({ b: waits(1) }), idle],
    "the loaded one is idle and has just become ready and been used: it stays its least time": [
      decide({ b: waits(1) }, { residence: ready("a", 4000) }),
      "a; again in 6 s",
    ],
    "the loaded model has just become ready, and no request has used it": [
      decide({ b: waits(1) }, { residence: ready("a", 0, false) }),
      idle,
    ],
    "the loaded one is busy": [decide({ a: works, b: waits(20_000) }), "a; again in 40 s"],
    "requests for the loaded one wait for a place": [decide({ a: waits(1), b: waits(20_000) }), "a; again in 40 s"],
    "another one has waited its bound while the loaded one is busy": [
      decide({ a: works, b: waits(60_000) }),
      "b; a request has waited long enough for b",
    ],
    "another one has waited its bound, and the loaded one has not had a turn yet": [
      decide({ a: works, b: waits(90_000) }, { residence: ready("a", 0), minResidencyMs: 0 }),
      "a; again in 1 s",
    ],
    "of two that wait, the one with the older request is next": [
      decide({ b: waits(10), c: waits(20) }),
      "c; c is requested, and a is idle",
    ],
    "two wait equally long: the order of the list decides": [decide({ c: waits(9), b: waits(9) }), idle],
    "a loading model is not stopped while a request waits for it": [
      decide({ a: waits(1), b: waits(500_000) }, { residence: loading }),
      "a",
    ],
    "a loading model whose clients have given up is stopped, but not at once": [
      decide({ b: waits(500) }, { residence: loading }),
      "a; again in 1.5 s",
    ],
    "a loading model whose clients have given up": [
      decide({ b: waits(2000) }, { residence: loading }),
      "b; b is requested, and no request waits for a",
    ],
    "a loading model that a person asked for is not stopped": [
      decide({ b: waits(500_000) }, { residence: loading, isOrdered: true }),
      "a",
    ],
    "a model that cannot be loaded delays no other request": [
      decide({ a: waits(90_000), b: waits(1) }, { residence: { phase: "none" }, isFailing: true }),
      "b; b is requested, and a cannot be loaded",
    ],
    "a model that cannot be loaded beside a loaded one gives the slot back": [
      decide({ a: waits(1) }, { residence: ready("b", 1), isFailing: true }),
      "b; a cannot be loaded, and b still is",
    ],
    "a model that failed is not tried before its time": [
      decide({ b: waits(9) }, { barredMs: new Map([["b", 7000]]) }),
      "a; again in 7 s",
    ],
    "nothing runs, and the older request is for the chosen one": [
      decide({ a: waits(9), b: waits(8) }, { residence: { phase: "none" } }),
      "a",
    ],
    "nothing runs, and the older request is for another one": [
      decide({ a: waits(8), b: waits(9) }, { residence: { phase: "none" } }),
      "b; b is requested",
    ],
    "the loaded one leaves for the chosen one: nothing changes that": [
      decide({ c: waits(90_000) }, { residence: { phase: "leaving", ref: "b" } }),
      "a",
    ],
    "the chosen one is still fetched, and another one has waited its bound": [
      decide({ a: waits(70_000), c: waits(60_000) }, { residence: { phase: "none" }, isFetching: true }),
      "c; c is requested, and a is still fetched",
    ],
    "the chosen one is fetched beside the loaded one, which answers its own requests meanwhile": [
      decide({ a: waits(70_000), b: waits(90_000) }, { residence: ready("b", 9), isFetching: true }),
      "a",
    ],
  };
  for (const [what, [told, expected]] of Object.entries(table)) it(what, () => assert.equal(told, expected));
});

/** A slot with one place per model, driven by the decision alone, in steps of half a second. */
class Simulation {
  readonly refs: readonly string[];
  readonly loadMs: number;
  readonly rules: { readonly maxWaitMs: number; readonly minResidencyMs: number };
  now = 0;
  longestMs = 0;
  served = 0;
  readonly loads: string[] = [];
  #chosen: string;
  #residence: Residence = { phase: "none" };
  #readyAt = 0;
  #wasUsed = false;
  #loadedAt = 0;
  #busyUntil = 0;
  readonly #lines = new Map<string, number[]>();

  constructor(refs: readonly string[], loadMs: number, rules: Simulation["rules"]) {
    this.refs = refs;
    this.loadMs = loadMs;
    this.rules = rules;
    this.#chosen = refs[0] ?? "";
  }

  arrive(ref: string): void {
    this.#lines.set(ref, [...(this.#lines.get(ref) ?? []), this.now]);
  }

  get waiting(): number {
    return [...this.#lines.values()].reduce((sum, line) => sum + line.length, 0);
  }

  step(workMs: number): void {
    this.now += 500;
    const isBusy = this.now < this.#busyUntil;
    if (this.#residence.phase === "leaving" && !isBusy) {
      this.#residence = { phase: "loading", ref: this.#chosen };
      this.loads.push(this.#chosen);
      this.#loadedAt = this.now + this.loadMs;
    } else if (this.#residence.phase === "loading" && this.now >= this.#loadedAt) {
      this.#readyAt = this.now;
      this.#wasUsed = false;
      this.#residence = ready(this.#chosen, 0, false);
    }
    if (this.#residence.phase === "ready") {
      const { ref } = this.#residence;
      const since = isBusy ? undefined : this.#lines.get(ref)?.shift();
      if (since !== undefined) {
        this.longestMs = Math.max(this.longestMs, this.now - since);
        this.served += 1;
        this.#busyUntil = this.now + workMs;
        this.#wasUsed = true;
      }
      this.#residence = ready(ref, this.now - this.#readyAt, this.#wasUsed);
    }
    this.#choose();
  }

  #choose(): void {
    const demand = new Map<string, ModelDemand>();
    for (const [ref, [oldest, ...others]] of this.#lines)
      if (oldest !== undefined) demand.set(ref, waits(this.now - oldest, others.length + 1));
    if (this.now < this.#busyUntil) demand.set(this.#chosen, { ...(demand.get(this.#chosen) ?? works), inFlight: 1 });
    const [refs, chosen, residence] = [this.refs, this.#chosen, this.#residence];
    const { ref } = chooseModel({ ...usual, refs, chosen, residence, demand, ...this.rules });
    const isAwaited = (demand.get(this.#chosen)?.held ?? 0) > 0;
    if (ref !== this.#chosen && this.#residence.phase === "loading")
      assert.equal(isAwaited, false, "a loading model that a request waits for was stopped");
    const isNeeded = this.#residence.phase === "none" && (demand.get(ref)?.held ?? 0) > 0;
    if (ref !== this.#chosen || isNeeded) this.#residence = { phase: "leaving", ref: this.#chosen };
    this.#chosen = ref;
  }
}

it("no request starves, and no loading model is stopped for the next request, under any load", () => {
  const arrivals = fc.array(fc.tuple(fc.nat(3), fc.nat(5), fc.integer({ min: 0, max: 3000 })), {
    minLength: 5,
    maxLength: 120,
  });
  const rules = fc.record({
    maxWaitMs: fc.integer({ min: 1000, max: 20_000 }),
    minResidencyMs: fc.integer({ min: 0, max: 5000 }),
  });
  fc.assert(
    fc.property(arrivals, rules, fc.integer({ min: 500, max: 10_000 }), (given, rule, loadMs) => {
      const refs = ["a", "b", "c", "d"];
      const simulation = new Simulation(refs, loadMs, rule);
      let asked = 0;
      for (const [ref, pause, workMs] of given) {
        simulation.arrive(refs[ref] ?? "a");
        asked += 1;
        for (let steps = 0; steps <= pause; steps++) simulation.step(workMs);
      }
      // Everybody is answered within the time that all models need for a turn and all requests for their work.
      const turnMs = rule.maxWaitMs + Math.max(1000, rule.minResidencyMs) + loadMs + 4000;
      const boundMs = turnMs * refs.length + asked * 4000;
      for (const end = simulation.now + boundMs; simulation.now < end && simulation.waiting > 0;) simulation.step(1000);
      assert.equal(simulation.served, asked);
      assert.ok(simulation.longestMs <= boundMs, `${simulation.longestMs} ms`);
    }),
  );
});
