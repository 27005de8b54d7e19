import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DeviceFacts } from "../../src/operator/plan/learning.ts";
import { FitRecords } from "../../src/operator/observe/fit.ts";
import { FitFigureFile } from "../../src/store/state/fit-figures.ts";
import { tempDir } from "../support/temp-dir.ts";
import { card, gib, memoryOf } from "./machine.ts";
import { custom, noDevicesHere, Site } from "./site.ts";

/** Engines that need so many GiB of a GPU with 8 GiB, which is taken once they have loaded. */
async function crowded(path: string, needs: Record<string, number>): Promise<Site> {
  const site = new Site();
  const hardware = (): DeviceFacts => {
    const taken = Object.entries(needs).filter(([name]) => site.publisher.slots.get(name)?.status.state === "ready");
    const free = 8 - taken.reduce((sum, [, size]) => sum + size, 0);
    return { memory: memoryOf(64 * gib), gpus: [card(free * gib)] };
  };
  site.machine = { ...noDevicesHere, facts: hardware };
  const records = new FitRecords({
    figures: await FitFigureFile.open(path, (error) => assert.fail(String(error))),
    hardware,
    remote: { known: () => undefined },
    onError: (error) => assert.fail(String(error)),
  });
  site.probeDevices = async () => {
    // As a driver's program: every slot that is decided about now has asked before the first answer comes.
    const found = hardware();
    await site.turn();
    return found;
  };
  site.fit = {
    ...site.fit,
    estimate: async (request) => {
      const { engineInput } = request;
      const host = { ...engineInput.host, llamaServer: undefined };
      return await records.estimate({ ...request, engineInput: { ...engineInput, host } });
    },
  };
  for (const name of Object.keys(needs)) declare(site, name, needs);
  return site;
}

function declare(site: Site, name: string, needs: Readonly<Record<string, number>>): void {
  site.setModel(name, { minVramBytes: (needs[name] ?? 0) * gib });
  site.runtime.manner(name).loadMs = 20_000;
  site.source.save(name, custom({ backend: "cuda", model: { default: name } }));
}

const starts = (site: Site): string =>
  ["a", "b", "c"].filter((name) => site.deeds(name).includes("start main")).join(" ");

describe("slots without a group that are loaded onto one GPU", () => {
  it("are not both started where only one of them has room, and the later one says which slot takes it", async () => {
    await using place = await tempDir();
    await using site = await crowded(place.path, { a: 5, b: 5 });
    await site.start();
    await site.advance(10);
    const [first = "", second = ""] = starts(site) === "a" ? ["a", "b"] : ["b", "a"];
    assert.equal(starts(site), first, "the other one would run out of memory");
    assert.deepEqual([site.state(first), site.condition(second, "Ready")], ["warming", "Unknown/MemoryHeld"]);
    assert.equal(
      site.slot(second).plan.message,
      `needs 5.0 GiB (declared) on 0000:01:00.0, which has 3.0 GiB free of 8.0 GiB, beside 5.0 GiB for slot ${first}, which is being loaded`,
    );
    await site.advance(30);
    assert.deepEqual([site.state(first), site.condition(second, "Ready")], ["ready", "False/NoMemory"]);
    assert.match(site.slot(second).plan.message, /which has 3\.0 GiB free of 8\.0 GiB$/);
    await site.request(first, "unload");
    await site.advance(60);
    assert.equal(site.state(second), "ready");
  });
});
