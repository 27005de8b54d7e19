import assert from "node:assert/strict";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import { isRefusal, type EngineRefusal } from "../../../src/engines/engine.ts";
import { custom, Site } from "../site.ts";
import { gibibyte } from "./members.ts";

/** A slot of the group that is loaded on demand. */
export function member(more: SlotSpecInput = {}): SlotSpecInput {
  return custom({ load: "onDemand", idleSeconds: 3600, group: "gpu", ...more });
}

/** A slot of the group whose engine needs so many GiB with its model. */
export function sized(size: number, more: SlotSpecInput = {}): SlotSpecInput {
  return member({ command: ["serve", "$(PORT)", String(size)], ...more });
}

/** What a model adds to the size of its slot, GiB. */
const modelSizes: Readonly<Record<string, number>> = { big: 6 };

/** An operator over a simulated machine, with the slots of a group. */
export class Course implements AsyncDisposable {
  readonly site = new Site();
  /** Why a slot cannot be started. */
  refusal: (slot: string, isDue: boolean) => EngineRefusal | undefined = () => undefined;
  /** By hash of a workload, GiB. */
  readonly #sizes = new Map<string, number>();

  private constructor() {
    const { site } = this;
    site.fit = {
      ...site.fit,
      estimate: async ({ workloads, isDue, engineInput: { slot, ref = "" } }) => {
        const refusal = this.refusal(slot, isDue);
        if (refusal !== undefined) return { refusal };
        const [workload] = isRefusal(workloads) ? [] : workloads;
        const size = Number(workload?.command.at(-1)) + (modelSizes[ref] ?? 0);
        if (workload === undefined || Number.isNaN(size)) return {};
        this.#sizes.set(workload.hash, size);
        const needBytes = size * gibibyte;
        const devices = [{ id: "host", needBytes }];
        return { fit: { stage: "declared", device: "host", needBytes, devices, stages: [] } };
      },
    };
  }

  /** Starts an operator with these slots, and a SlotGroup called gpu unless `rules` are undefined. */
  static async of(
    rules: Parameters<Site["source"]["group"]>[1] | undefined,
    specs: Readonly<Record<string, SlotSpecInput>>,
  ): Promise<Course> {
    const course = new Course();
    if (rules !== undefined) course.site.source.group("gpu", rules);
    for (const [slot, spec] of Object.entries(specs)) course.site.source.save(slot, spec);
    await course.site.start();
    return course;
  }

  /** A request for the slot waits, or as many as `more` has. */
  ask(slot: string, more: object = { held: 1 }): void {
    const { demand, clock } = this.site;
    demand.set(slot, { held: 0, inFlight: 0, ...more, lastRequestAt: clock.now().toISOString() });
  }

  /** The slot answers a request. */
  use(slot: string): void {
    this.ask(slot, { inFlight: 1 });
  }

  /** No request is left at the slots. */
  rest(...slots: readonly string[]): void {
    for (const slot of slots) this.site.demand.set(slot, { held: 0, inFlight: 0 });
  }

  /** Loads the slots one after the other, and leaves them idle. */
  async load(...slots: readonly string[]): Promise<void> {
    for (const slot of slots) {
      this.ask(slot);
      await this.site.advance(5);
      this.rest(slot);
    }
  }

  /** After so many seconds the slots have these states, as in `a ready, b offline`. */
  async after(seconds: number, expected?: string): Promise<void> {
    await this.site.advance(seconds);
    if (expected === undefined) return;
    const slots = expected.split(", ").map((text) => text.split(" ")[0] ?? "");
    assert.equal(slots.map((slot) => `${slot} ${this.site.state(slot)}`).join(", "), expected);
  }

  message(slot: string): string {
    return this.site.slot(slot).plan.message;
  }

  /** Why the slot leaves, or left last. */
  leave(slot: string): string | undefined {
    return this.site.slot(slot).status.transitions.findLast(({ to }) => to === "unloading")?.message;
  }

  /** The need that the slot's fit names, GiB. */
  sizeOf(slot: string): number {
    return (this.site.slot(slot).status.fit?.needBytes ?? 0) / gibibyte;
  }

  /** The most engines that ran at once, and the most GiB that they needed together. */
  peak(): { readonly engines: number; readonly gib: number } {
    let [engines, size, mostEngines, mostGib] = [0, 0, 0, 0];
    for (const { did, hash } of this.site.runtime.deeds) {
      const change = did === "start" ? 1 : -1;
      engines += change;
      size += change * (this.#sizes.get(hash) ?? 0);
      mostEngines = Math.max(mostEngines, engines);
      mostGib = Math.max(mostGib, size);
    }
    return { engines: mostEngines, gib: mostGib };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.site[Symbol.asyncDispose]();
  }
}
