import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Fit } from "../../../src/api/fit.ts";
import { FitRecords } from "../../../src/operator/observe/fit.ts";
import { custom, noDevicesHere, Site } from "../site.ts";
import { gibibyte } from "./members.ts";

const member = custom({ load: "onDemand", idleSeconds: 600, group: "gpu" });

function fit(size: number): Fit {
  const needBytes = size * gibibyte;
  return { stage: "declared", device: "host", needBytes, devices: [{ id: "host", needBytes }], stages: [] };
}

const memory = {
  total_bytes: 32 * gibibyte,
  available_bytes: 30 * gibibyte,
  swap_bytes: 0,
  limit_bytes: null,
  usable_bytes: 32 * gibibyte,
  evidence: [],
};

/** Slots that need so many GiB of a host that has 32. */
async function sized(sizes: Readonly<Record<string, number>>): Promise<Site> {
  const site = new Site();
  site.fit = {
    ...site.fit,
    estimate: async ({ engineInput: { slot } }) => (sizes[slot] === undefined ? {} : { fit: fit(sizes[slot]) }),
  };
  site.machine = { ...noDevicesHere, facts: () => ({ memory, gpus: [] }) };
  for (const slot of Object.keys(sizes)) site.source.save(slot, member);
  return site;
}

function ask(site: Site, slot: string): void {
  site.demand.set(slot, { held: 1, inFlight: 0, lastRequestAt: site.clock.now().toISOString() });
}

function loaded(site: Site): string {
  const names = [...site.publisher.slots].flatMap(([name, { status }]) => (status.state === "ready" ? [name] : []));
  return names.toSorted().join(" ");
}

describe("a group with a budget of bytes", () => {
  it("loads slots together that fit, and makes the cheapest slot leave for a slot that does not fit", async () => {
    await using site = await sized({ a: 10, b: 8, c: 10, d: 1 });
    site.source.group("gpu", { budget: { memoryBytes: 20 * gibibyte }, minResidencySeconds: 0 });
    await site.start();
    for (const slot of ["a", "b", "d"]) {
      ask(site, slot);
      await site.advance(30);
      site.demand.set(slot, { held: 0, inFlight: 0 });
    }
    assert.equal(loaded(site), "a b d");
    ask(site, "c");
    await site.advance(5);
    // Without a, 9 GiB are used; without b, 11: too much for c.
    assert.equal(loaded(site), "b c d");
    assert.equal(site.slot("a").status.transitions.at(-2)?.message, "slot c waits for its place in group gpu");
  });

  it("holds no more slots than the memory that their manifests reserve allows", async () => {
    const names = ["a", "b", "c", "d", "e", "f"];
    await using site = await sized({});
    site.fit = new FitRecords({
      figures: { get: () => undefined },
      hardware: () => ({ memory, gpus: [] }),
      remote: { known: () => undefined },
      onError: (error) => assert.fail(String(error)),
    });
    site.source.group("gpu", { budget: { memoryBytes: 4 * gibibyte } });
    for (const name of names) site.source.save(name, { ...member, resources: { memoryBytes: gibibyte } });
    await site.start();
    for (const name of names) ask(site, name);
    await site.advance(30);
    assert.equal(loaded(site), "a b c d");
    assert.match(
      site.slot("f").plan.message,
      /^group gpu is full: it needs 1.0 GiB, and of 4.0 GiB of memory a holds 1.0 GiB, b /,
    );
  });

  it("makes a slot leave for a smaller budget, with the bytes that are held and the budget", async () => {
    await using site = await sized({ a: 10, b: 8 });
    site.source.group("gpu", { budget: { memoryBytes: 20 * gibibyte }, minResidencySeconds: 0 });
    await site.start();
    for (const slot of ["a", "b"]) {
      ask(site, slot);
      await site.advance(30);
      site.demand.set(slot, { held: 0, inFlight: 0 });
    }
    assert.equal(loaded(site), "a b");
    site.source.group("gpu", { budget: { memoryBytes: 15 * gibibyte }, minResidencySeconds: 0 });
    await site.advance(10);
    const left = loaded(site) === "a" ? "b" : "a";
    assert.equal(
      site.slot(left).status.transitions.at(-2)?.message,
      "group gpu holds 18.0 GiB of memory, and its budget is 15.0 GiB",
    );
  });

  it("loads a slot with an unknown need alone, and names the slot that it waits for", async () => {
    await using site = await sized({ a: 10 });
    site.source.save("new", member);
    site.source.group("gpu", { budget: { memoryBytes: 20 * gibibyte }, minResidencySeconds: 0 });
    await site.start();
    ask(site, "a");
    await site.advance(2);
    ask(site, "new");
    await site.advance(2);
    assert.equal(
      site.slot("new").plan.message,
      "group gpu is full: what it needs is not known, so that it is loaded alone the first time, and of 20.0 GiB of memory a holds 10.0 GiB",
    );
  });

  it("stalls a slot that is larger than the budget, with the sum, before it is asked for, and makes no other slot leave for it", async () => {
    await using site = await sized({ a: 10, b: 30 });
    site.source.group("gpu", { budget: { memoryBytes: 20 * gibibyte }, minResidencySeconds: 0 });
    await site.start();
    await site.advance(2);
    assert.deepEqual(
      [site.condition("a", "Ready"), site.condition("b", "Ready")],
      ["True/ScaledToZero", "False/GroupFull"],
    );
    ask(site, "a");
    await site.advance(2);
    site.demand.set("a", { held: 0, inFlight: 0 });
    ask(site, "b");
    await site.advance(90);
    assert.deepEqual([loaded(site), site.condition("b", "Stalled")], ["a", "True/GroupFull"]);
    assert.equal(
      site.slot("b").plan.message,
      "group gpu has too little for it: it needs 30.0 GiB, and the group has 20.0 GiB of memory; a smaller model or a larger budget helps",
    );
    site.source.group("gpu", { budget: { memoryBytes: 31 * gibibyte }, minResidencySeconds: 0 });
    await site.advance(5);
    assert.equal(loaded(site), "b");
  });
});

describe("a group that no SlotGroup declares", () => {
  it("shares the memory of the device that its slots compute on", async () => {
    await using site = await sized({ a: 20, b: 8, c: 20 });
    await site.start();
    ask(site, "a");
    ask(site, "b");
    await site.advance(40);
    assert.equal(loaded(site), "a b");
    site.demand.set("a", { held: 0, inFlight: 0 });
    ask(site, "c");
    await site.advance(40);
    assert.equal(loaded(site), "b c");
  });

  it("sets no limit where no slot's need is known", async () => {
    await using site = await sized({});
    for (const slot of ["a", "b", "c"]) site.source.save(slot, member);
    await site.start();
    for (const slot of ["a", "b", "c"]) ask(site, slot);
    await site.advance(5);
    assert.equal(loaded(site), "a b c");
  });
});

describe("a group with a slot that cannot be read", () => {
  it("names the slot to the waiting slots, and continues without it after ten seconds", async () => {
    await using site = await sized({ a: 10 });
    site.source.group("gpu", { budget: { slots: 1 } });
    site.source.save("odd", member);
    const { machine } = site;
    site.machine = {
      ...machine,
      devicesFor(slot, isRunning) {
        if (slot === "odd") throw new Error("told to fail: this slot cannot be read");
        return machine.devicesFor(slot, isRunning);
      },
    };
    ask(site, "a");
    await site.start();
    await site.advance(2);
    assert.deepEqual(
      [site.condition("a", "Available"), site.slot("a").plan.message],
      ["False/GroupPending", "group gpu waits until slot odd has been read once"],
    );
    await site.advance(10);
    assert.equal(loaded(site), "a");
  });
});
