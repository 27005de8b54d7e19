import { isRefusal } from "../../../src/engines/engine.ts";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import { custom, noDevicesHere, Site } from "../site.ts";
import { gibibyte } from "./members.ts";

/** The budget of the group, GiB. */
export const budget = 20;

/** A slot of the group whose engine needs so many GiB, with each model, or with each of several. */
export function member(size: number, more: SlotSpecInput = {}): SlotSpecInput {
  const command = ["serve", "$(PORT)", String(size)];
  return custom({ command, load: "onDemand", idleSeconds: 3600, group: "gpu", ...more });
}

/** What a model adds to the size of its slot, GiB. */
const modelSizes: Readonly<Record<string, number>> = { big: 6, tiny: -2 };

export interface Scene extends AsyncDisposable {
  readonly site: Site;
  /** The most GiB that engines held at once. */
  most(): number;
}

/** A group with a budget, whose slots are loaded and idle. */
export async function scene(specs: Readonly<Record<string, number | SlotSpecInput>>): Promise<Scene> {
  const site = new Site();
  const sizes = new Map<string, number>();
  site.fit = {
    ...site.fit,
    estimate: async ({ workloads, engineInput: { ref = "" } }) => {
      const [workload] = isRefusal(workloads) ? [] : workloads;
      if (workload === undefined) return {};
      const size = Number(workload.command.at(-1)) + (modelSizes[ref] ?? 0);
      sizes.set(workload.hash, size);
      const needBytes = size * gibibyte;
      const devices = [{ id: "host", needBytes }];
      return { fit: { stage: "declared", device: "host", needBytes, devices, stages: [] } };
    },
  };
  site.machine = { ...noDevicesHere };
  site.source.group("gpu", { budget: { memoryBytes: budget * gibibyte }, minResidencySeconds: 0, maxWaitSeconds: 30 });
  for (const [slot, spec] of Object.entries(specs)) {
    site.source.save(slot, typeof spec === "number" ? member(spec) : spec);
  }
  await site.start();
  for (const slot of Object.keys(specs)) {
    ask(site, slot);
    await site.advance(5);
    rest(site, slot);
  }
  const most = (): number => {
    let [now, peak] = [0, 0];
    for (const { did, hash } of site.runtime.deeds) {
      now += (did === "start" ? 1 : -1) * (sizes.get(hash) ?? 0);
      peak = Math.max(peak, now);
    }
    return peak;
  };
  return { site, most, [Symbol.asyncDispose]: () => site[Symbol.asyncDispose]() };
}

export function ask(site: Site, slot: string, more: object = { held: 1 }): void {
  site.demand.set(slot, { held: 0, inFlight: 0, ...more, lastRequestAt: site.clock.now().toISOString() });
}

export function rest(site: Site, slot: string): void {
  site.demand.set(slot, { held: 0, inFlight: 0 });
}

/** What the slot's fit says that it needs, GiB. */
export const sizeOf = (site: Site, slot: string): number => (site.slot(slot).status.fit?.needBytes ?? 0) / gibibyte;
