import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { custom, Site } from "./site.ts";

const slot = "coder";
const choosing: SlotSpecInput = custom({
  model: { default: "m", onRequest: ["big", "tiny"], maxWaitSeconds: 30, minResidencySeconds: 5 },
});

interface Asked {
  readonly held?: number;
  readonly inFlight?: number;
}

/** Demand of a gateway for models of the slot; a waiting request keeps the time of its arrival. */
class Clients {
  readonly #site: Site;
  readonly #since = new Map<string, string>();

  constructor(site: Site) {
    this.#site = site;
  }

  ask(demand: Readonly<Record<string, Asked>>): void {
    const now = this.#site.clock.now().toISOString();
    const refs = Object.entries(demand).map(([ref, { held = 0, inFlight = 0 }]) => {
      if (held === 0) this.#since.delete(ref);
      else if (!this.#since.has(ref)) this.#since.set(ref, now);
      const waitingSince = this.#since.get(ref);
      return { ref, held, inFlight, ...(waitingSince === undefined ? {} : { waitingSince }) };
    });
    for (const ref of this.#since.keys()) if (!(ref in demand)) this.#since.delete(ref);
    const held = refs.reduce((sum, each) => sum + each.held, 0);
    const inFlight = refs.reduce((sum, each) => sum + each.inFlight, 0);
    const used = inFlight === 0 ? {} : { lastByteAt: now };
    this.#site.demand.set(slot, { held, inFlight, refs, lastRequestAt: now, ...used });
  }
}

async function loaded(spec = choosing): Promise<{ site: Site; clients: Clients }> {
  const site = new Site();
  site.source.save(slot, spec);
  await site.start();
  await site.advance(2);
  assert.equal(site.state(slot), "ready");
  return { site, clients: new Clients(site) };
}

const held = (site: Site): string => {
  const { model, state, onRequest } = site.slot(slot).status;
  return `${model.ref} ${state}, ${onRequest?.chosen} chosen`;
};
const messages = (site: Site): string[] =>
  site.slot(slot).status.transitions.map(({ to, message }) => `${to}: ${message}`);

describe("a slot whose model requests choose", () => {
  it("holds the manifest's model first, and says which models may be requested", async () => {
    const { site } = await loaded();
    await using _ = site;
    const { model, onRequest } = site.slot(slot).status;
    assert.deepEqual(model, { ref: "m", origin: "spec", served: "m" });
    assert.deepEqual(onRequest && { ...onRequest, since: "" }, {
      usual: "m",
      refs: ["m", "big", "tiny"],
      chosen: "m",
      since: "",
      failed: [],
    });
  });

  it("is swapped to the model that a request names, and keeps it afterwards", async () => {
    const { site, clients } = await loaded();
    await using _ = site;
    clients.ask({ big: { held: 1 } });
    await site.advance(3);
    assert.equal(held(site), "big ready, big chosen");
    assert.deepEqual(site.slot(slot).status.model, {
      ref: "big",
      origin: "request",
      spec: "m",
      previous: "m",
      served: "big",
    });
    assert.ok(
      messages(site).includes("unloading: m leaves for big: big is requested, and m is idle"),
      messages(site).join("\n"),
    );
    assert.deepEqual(site.deeds(slot), ["start main", "stop main", "start main"]);
    clients.ask({});
    await site.advance(600);
    assert.equal(held(site), "big ready, big chosen");
  });

  it("waits for requests in flight without a limit, and takes no new ones meanwhile", async () => {
    const { site, clients } = await loaded();
    await using _ = site;
    clients.ask({ m: { inFlight: 1 }, big: { held: 1 } });
    await site.advance(29);
    assert.equal(held(site), "m ready, m chosen");
    await site.advance(2);
    assert.equal(held(site), "m unloading, big chosen");
    clients.ask({ m: { inFlight: 1, held: 3 }, big: { held: 1 } });
    // Far beyond the time in which a stopping engine is waited for otherwise.
    await site.advance(120);
    assert.equal(held(site), "m unloading, big chosen");
    assert.deepEqual(site.deeds(slot), ["start main"]);
    clients.ask({ m: { held: 3 }, big: { held: 1 } });
    await site.advance(2);
    assert.equal(held(site), "big ready, big chosen");
  });

  it("returns to the first model once its requests have waited, and never stops a loading model", async () => {
    const { site, clients } = await loaded();
    await using _ = site;
    site.runtime.manner(slot).loadMs = 60_000;
    clients.ask({ m: { held: 0 }, big: { held: 1 } });
    await site.advance(10);
    clients.ask({ m: { held: 1 }, big: { held: 1 } });
    await site.advance(45);
    assert.equal(held(site), "big warming, big chosen");
    await site.advance(10);
    clients.ask({ m: { held: 1 }, big: { inFlight: 1 } });
    await site.advance(1);
    assert.equal(site.slot(slot).status.model.ref, "big");
    await site.advance(30);
    assert.match(held(site), /^big unloading, m chosen|^m /);
  });

  it("stops a loading model without waiting requests", async () => {
    const { site, clients } = await loaded();
    await using _ = site;
    site.runtime.manner(slot).loadMs = 300_000;
    clients.ask({ big: { held: 1 } });
    await site.advance(20);
    assert.equal(held(site), "big warming, big chosen");
    // Its client gives up, and another one asks for a third model.
    clients.ask({ tiny: { held: 1 } });
    await site.advance(1);
    assert.equal(held(site), "big warming, big chosen");
    await site.advance(3);
    assert.equal(site.slot(slot).status.model.ref, "tiny");
    site.runtime.manner(slot).loadMs = 100;
    await site.advance(6);
    assert.equal(held(site), "tiny ready, tiny chosen");
  });

  it("keeps no other request waiting for a model that cannot be loaded, and tries that model again later", async () => {
    const { site, clients } = await loaded();
    await using _ = site;
    clients.ask({ big: { held: 1 }, m: { held: 0 } });
    site.runtime.manner(slot).crashAfterMs = 60;
    await site.advance(0.05);
    clients.ask({ big: { held: 1 }, m: { held: 1 } });
    const failures = (): readonly { ref: string }[] => site.slot(slot).status.onRequest?.failed ?? [];
    site.runtime.manner(slot).crashAfterMs = undefined;
    for (let tries = 0; failures().length === 0 && tries < 100; tries++) await site.advance(0.01);
    const failed = site.slot(slot).status.onRequest?.failed ?? [];
    await site.advance(2);
    assert.equal(held(site), "m ready, m chosen");
    assert.deepEqual(
      failed.map(({ ref, failures }) => [ref, failures]),
      [["big", 1]],
    );
    assert.equal(site.slot(slot).status.failures, 0);
    // Its request waits for the next attempt, which is due after some seconds.
    clients.ask({ big: { held: 1 }, m: {} });
    await site.advance(1);
    assert.equal(held(site), "m ready, m chosen");
    await site.advance(20);
    assert.equal(held(site), "big ready, big chosen");
    assert.deepEqual(site.slot(slot).status.onRequest?.failed, []);
  });

  it("continues to serve its model where another model is refused before a start", async () => {
    const spec: SlotSpecInput = { engine: "llama", model: { default: "m", onRequest: ["nobody", "big"] } };
    const site = new Site();
    await using _ = site;
    site.source.save(slot, spec);
    await site.start();
    await site.advance(2);
    assert.equal(held(site), "m ready, m chosen");
    assert.equal(site.condition(slot, "ModelUnknown"), "True/ModelUnknown");
    const message = site.slot(slot).status.conditions.find(({ type }) => type === "ModelUnknown")?.message ?? "";
    assert.match(message, /model\.on_?[rR]equest\[0\] names nobody.*no Model declares it/);
    const clients = new Clients(site);
    clients.ask({ nobody: { held: 1 } });
    await site.advance(3);
    assert.equal(held(site), "m ready, m chosen");
    assert.deepEqual(site.deeds(slot), ["start main"]);
    assert.equal(site.slot(slot).status.onRequest?.failed[0]?.reason, "ModelNotFound");
    site.setModel("nobody");
    await site.settle();
    assert.equal(site.condition(slot, "ModelUnknown"), undefined);
  });

  it("is loaded on demand with the requested model, not with the last model", async () => {
    const { site, clients } = await loaded(custom({ ...choosing, load: "always" }));
    await using _ = site;
    site.source.save(slot, { ...choosing, load: "onDemand", idleSeconds: 10 });
    clients.ask({});
    await site.advance(60);
    assert.equal(site.state(slot), "offline");
    clients.ask({ tiny: { held: 1 } });
    await site.advance(3);
    assert.equal(held(site), "tiny ready, tiny chosen");
    assert.deepEqual(site.deeds(slot), ["start main", "stop main", "start main"]);
  });

  it("carries out a person's requests at once: a swap, a load of one model, an edit, a restart", async () => {
    const { site, clients } = await loaded();
    await using _ = site;
    clients.ask({ big: { held: 1 } });
    await site.advance(3);
    clients.ask({});
    await site.request(slot, "swap-model", { model: "tiny", specModel: "m" });
    await site.advance(3);
    assert.equal(held(site), "tiny ready, tiny chosen");
    assert.equal(site.slot(slot).status.onRequest?.usual, "tiny");
    await site.request(slot, "load", { model: "big" });
    await site.advance(3);
    assert.equal(held(site), "big ready, big chosen");
    assert.equal(site.slot(slot).status.onRequest?.usual, "tiny");
    const starts = site.deeds(slot).length;
    await site.request(slot, "restart");
    await site.advance(3);
    assert.equal(held(site), "big ready, big chosen");
    assert.equal(site.deeds(slot).length, starts + 2);
    await site.request(slot, "swap-model", { model: "tiny", specModel: "m" });
    await site.advance(3);
    assert.equal(held(site), "tiny ready, tiny chosen");
    await site.request(slot, "swap-model", { specModel: "m" });
    await site.advance(3);
    assert.equal(held(site), "m ready, m chosen");
    site.source.save(slot, custom({ model: { ...choosing.model, default: "big", onRequest: ["m"] } }));
    await site.advance(3);
    assert.equal(held(site), "big ready, big chosen");
    site.source.save(slot, custom());
    await site.advance(3);
    assert.equal(site.slot(slot).status.model.ref, "m");
    assert.equal(site.slot(slot).status.onRequest, undefined);
  });

  /** `downMs`: the engine that its predecessor started listens after 40 ms, and is loaded after 140 ms. */
  async function dieAtEachEffect(downMs: number): Promise<void> {
    for (let effect = 0; effect < 6; effect++) {
      const { site, clients } = await loaded();
      await using _ = site;
      site.failAt(effect, true);
      clients.ask({ big: { held: 1 } });
      await site.turn();
      site.clock.advance(downMs);
      await site.start();
      clients.ask({ big: { held: 1 } });
      await site.advance(5);
      assert.equal(held(site), "big ready, big chosen", `it died at effect ${effect}`);
      assert.deepEqual(site.deeds(slot), ["start main", "stop main", "start main"], `it died at effect ${effect}`);
      assert.doesNotMatch(site.states(slot).join(), /error/, `it died at effect ${effect}`);
    }
  }

  for (const [ms, engine] of [
    [0, "just started"],
    [50, "listening"],
    [3000, "ready"],
  ] as const)
    it(`keeps its choice over a restart of the operator at any effect, and stops nothing twice: engine ${engine}`, async () => {
      await dieAtEachEffect(ms);
    });

  it("adds up the demand of several gateways, and counts a gateway of an earlier version for the chosen model", async () => {
    const { site } = await loaded();
    await using _ = site;
    site.demand.set(slot, { held: 0, inFlight: 2 });
    const { demandOf } = await import("../../src/operator/observe/demand.ts");
    const now = site.clock.now();
    const since = (seconds: number): string => new Date(now.getTime() - seconds * 1000).toISOString();
    const gateway = (refs: { ref: string; held: number; inFlight: number; waitingSince?: string }[] | undefined) => ({
      schema: 1 as const,
      gateway: "g",
      pid: 1,
      bootId: "b",
      heartbeat: since(0),
      slots: { [slot]: { held: 1, inFlight: 1, seenRevision: 1, ...(refs === undefined ? {} : { refs }) } },
    });
    const sum = demandOf(
      [
        gateway([{ ref: "big", held: 1, inFlight: 0, waitingSince: since(5) }]),
        gateway([{ ref: "big", held: 2, inFlight: 1, waitingSince: since(9) }]),
        gateway(undefined),
      ],
      slot,
      now,
      undefined,
    );
    assert.deepEqual(sum.byRef?.refs.get("big"), { held: 3, inFlight: 1, waitingSince: new Date(since(9)) });
    assert.deepEqual(sum.byRef?.unattributed, { held: 1, inFlight: 1 });
  });

  it("finds no demand for a slot called like something that every object has", async () => {
    const { demandOf } = await import("../../src/operator/observe/demand.ts");
    const now = new Date();
    const heartbeat = now.toISOString();
    const gateway = { schema: 1 as const, gateway: "g", pid: 1, bootId: "b", heartbeat, slots: {} };
    const { held, inFlight } = demandOf([gateway], "constructor", now, undefined);
    assert.deepEqual({ held, inFlight }, { held: 0, inFlight: 0 });
  });
});
