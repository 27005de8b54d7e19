import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { custom, Site } from "./site.ts";

const slot = "coder";
const choosing: SlotSpecInput = custom({
  model: { default: "m", onRequest: ["big", "tiny"], maxWaitSeconds: 30, minResidencySeconds: 5 },
});
const swapped = ["start main", "stop main", "start main"];

interface Asked {
  readonly held?: number;
  readonly inFlight?: number;
}

/** A site with that slot, and the demand of its gateway by model. */
class Choosing extends Site {
  readonly #since = new Map<string, string>();

  async load(spec = choosing): Promise<this> {
    await this.run({ [slot]: spec }, 2);
    assert.equal(this.state(slot), "ready");
    return this;
  }

  /** A waiting request keeps the time of its arrival. */
  clients(demand: Readonly<Record<string, Asked>>): void {
    const now = this.clock.now().toISOString();
    const refs = Object.entries(demand).map(([ref, { held = 0, inFlight = 0 }]) => {
      if (held === 0) this.#since.delete(ref);
      else if (!this.#since.has(ref)) this.#since.set(ref, now);
      const waitingSince = this.#since.get(ref);
      return { ref, held, inFlight, ...(waitingSince === undefined ? {} : { waitingSince }) };
    });
    for (const ref of this.#since.keys()) if (!(ref in demand)) this.#since.delete(ref);
    const held = refs.reduce((sum, each) => sum + each.held, 0);
    const inFlight = refs.reduce((sum, each) => sum + each.inFlight, 0);
    this.ask(slot, { held, inFlight, refs, ...(inFlight === 0 ? {} : { lastByteAt: now }) });
  }

  get onRequest(): NonNullable<ReturnType<Site["slot"]>["status"]["onRequest"]> {
    const { onRequest } = this.slot(slot).status;
    return onRequest ?? assert.fail("requests choose no model");
  }

  async holds(expected: string, seconds = 3): Promise<void> {
    await this.advance(seconds);
    const { model, state } = this.slot(slot).status;
    assert.equal(`${model.ref} ${state}, ${this.onRequest.chosen} chosen`, expected);
  }
}

describe("a slot whose model requests choose", () => {
  it("holds the manifest's model first, says which may be requested, and keeps a requested one afterwards", async () => {
    await using site = await new Choosing().load();
    assert.deepEqual(site.slot(slot).status.model, { ref: "m", origin: "spec", served: "m" });
    const { since, ...choice } = site.onRequest;
    assert.deepEqual(choice, { usual: "m", refs: ["m", "big", "tiny"], chosen: "m", failed: [] });
    assert.notEqual(since, "");
    site.clients({ big: { held: 1 } });
    await site.holds("big ready, big chosen");
    const { model, transitions } = site.slot(slot).status;
    assert.deepEqual(model, { ref: "big", origin: "request", spec: "m", previous: "m", served: "big" });
    const left = transitions.find(({ to }) => to === "unloading");
    assert.equal(left?.message, "m leaves for big: big is requested, and m is idle");
    assert.deepEqual(site.deeds(slot), swapped);
    site.clients({});
    await site.holds("big ready, big chosen", 600);
  });

  it("keeps no other request waiting for a model that cannot be loaded, and tries that model again later", async () => {
    await using site = await new Choosing().load();
    site.clients({ big: { held: 1 }, m: { held: 0 } });
    site.runtime.manner(slot).crashAfterMs = 60;
    await site.advance(0.05);
    site.clients({ big: { held: 1 }, m: { held: 1 } });
    site.runtime.manner(slot).crashAfterMs = undefined;
    for (let tries = 0; site.onRequest.failed.length === 0 && tries < 100; tries++) await site.advance(0.01);
    const [failed, ...others] = site.onRequest.failed;
    assert.deepEqual([failed?.ref, failed?.failures, others], ["big", 1, []]);
    await site.holds("m ready, m chosen", 2);
    assert.equal(site.slot(slot).status.failures, 0);
    // Its request waits for the next attempt, which is due after some seconds.
    site.clients({ big: { held: 1 }, m: {} });
    await site.holds("m ready, m chosen", 1);
    await site.holds("big ready, big chosen", 20);
    assert.deepEqual(site.onRequest.failed, []);
  });

  it("continues to serve its model where another model is refused before a start", async () => {
    await using site = await new Choosing().load({ model: { default: "m", onRequest: ["nobody", "big"] } });
    const unknown = site.slot(slot).status.conditions.find(({ type }) => type === "ModelUnknown");
    assert.match(unknown?.message ?? "", /model\.on_?[rR]equest\[0\] names nobody.*no Model declares it/);
    site.clients({ nobody: { held: 1 } });
    await site.holds("m ready, m chosen");
    assert.deepEqual([site.deeds(slot), site.onRequest.failed[0]?.reason], [["start main"], "ModelNotFound"]);
    site.setModel("nobody");
    await site.settle();
    assert.equal(site.condition(slot, "ModelUnknown"), undefined);
  });

  it("carries out a person's requests at once: a swap, a load of one model, a restart, an edit", async () => {
    await using site = await new Choosing().load();
    site.clients({ big: { held: 1 } });
    await site.holds("big ready, big chosen");
    site.clients({});
    await site.request(slot, "swap-model", { model: "tiny", specModel: "m" });
    await site.holds("tiny ready, tiny chosen");
    await site.request(slot, "load", { model: "big" });
    await site.holds("big ready, big chosen");
    assert.equal(site.onRequest.usual, "tiny");
    const starts = site.deeds(slot).length;
    await site.request(slot, "restart");
    await site.holds("big ready, big chosen");
    assert.equal(site.deeds(slot).length, starts + 2);
    await site.request(slot, "swap-model", { model: "tiny", specModel: "m" });
    await site.holds("tiny ready, tiny chosen");
    await site.request(slot, "swap-model", { specModel: "m" });
    await site.holds("m ready, m chosen");
    site.source.save(slot, custom({ model: { ...choosing.model, default: "big", onRequest: ["m"] } }));
    await site.holds("big ready, big chosen");
    site.source.save(slot, custom());
    await site.advance(3);
    const { model, onRequest } = site.slot(slot).status;
    assert.deepEqual([model.ref, onRequest], ["m", undefined]);
  });

  // The engine that the dead operator started listens after 40 ms, and is loaded after 140 ms.
  for (const [engine, downMs] of Object.entries({ "just started": 0, listening: 50, ready: 3000 }))
    it(`keeps its choice over a restart of the operator at any effect, and stops nothing twice: engine ${engine}`, async () => {
      for (let effect = 0; effect < 6; effect++) {
        await using site = await new Choosing().load();
        site.failAt(effect, true);
        site.clients({ big: { held: 1 } });
        await site.turn();
        site.clock.advance(downMs);
        await site.start();
        site.clients({ big: { held: 1 } });
        await site.holds("big ready, big chosen", 5);
        assert.deepEqual(site.deeds(slot), swapped, `it died at effect ${effect}`);
        assert.doesNotMatch(site.states(slot).join(), /error/, `it died at effect ${effect}`);
      }
    });
});
