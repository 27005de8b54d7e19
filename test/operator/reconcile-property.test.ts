import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { isAvailable } from "../../src/api/states.ts";
import { wellBehaved } from "../doubles/runtime.ts";
import { eventOf, happen, type Event } from "./events.ts";
import { custom, Site } from "./site.ts";
import { fc, runs } from "../support/fast-check.ts";

/** Always loaded; the same; on demand; one of two processes; and one of two replicas. */
const slots = ["a", "b", "cold", "embed", "many"] as const;
type Slot = (typeof slots)[number];

const base: Readonly<Record<Slot, SlotSpecInput>> = {
  a: custom(),
  b: custom(),
  cold: custom({ load: "onDemand", idleSeconds: 20 }),
  embed: { model: { default: "tiny", rerank: "ranker" } },
  many: custom({ replicas: 2 }),
};

const event = eventOf(slots);

/** Applies events, and remembers since when which slot's engines may be stopped. */
class Course {
  readonly site: Site;
  readonly specs = new Map<string, SlotSpecInput>();
  readonly #disturbed = new Map<string, number>();
  #judged = 0;

  constructor(site: Site) {
    this.site = site;
  }

  async apply(event: Event<Slot>): Promise<void> {
    const { site } = this;
    const time = site.clock.now().getTime();
    if ("slot" in event && (event.do !== "edit" || event.disturbs) && event.do !== "break") {
      if (event.do !== "kill" && event.do !== "lose" && event.do !== "demand") this.#disturbed.set(event.slot, time);
    }
    const before = "slot" in event ? JSON.stringify(restarting(this.specs.get(event.slot))) : undefined;
    const strangers = site.runtime.strangers.size;
    await happen(site, event, { base, specs: this.specs });
    if (event.do === "edit" && JSON.stringify(restarting(this.specs.get(event.slot))) !== before)
      this.#disturbed.set(event.slot, time);
    if (site.runtime.strangers.size > strangers) for (const name of slots) this.#disturbed.set(name, time);
    await site.settle();
    if (site.isDead) await site.start();
    this.judge();
  }

  /** No engine was stopped that nothing had happened to since it was started. */
  judge(): void {
    const { deeds } = this.site.runtime;
    for (const { did, slot: name, process, startedAt, isPortTaken } of deeds.slice(this.#judged)) {
      if (did !== "stop" || name === "cold" || isPortTaken) continue;
      const since = this.#disturbed.get(name) ?? -1;
      assert.ok(since >= startedAt.getTime(), `${name}/${process} was stopped though nothing had happened to it`);
    }
    this.#judged = deeds.length;
    assert.deepEqual(this.site.problems(), []);
  }

  /** All is well again, and stays so. */
  async mend(): Promise<void> {
    const { site } = this;
    site.demand.isSlow = false;
    site.runtime.strangers.clear();
    await this.apply({ do: "model", isThere: true });
    for (const name of slots) {
      await this.apply({ do: "behave", slot: name, manner: wellBehaved });
      await this.apply({ do: "demand", slot: name, held: 0, inFlight: 0 });
      const spec = this.specs.get(name);
      if (spec !== undefined) site.source.save(name, spec);
    }
    await site.start();
    await site.advance(0.01);
    for (const name of slots) {
      // Only a person ends this one.
      if (site.condition(name, "Stalled") === "True/StartFailed") await site.request(name, "restart");
    }
    await site.advance(320);
    this.judge();
  }

  /** Why that slot is not as it should be, if it is not. */
  wrong(name: Slot): string | undefined {
    const { site } = this;
    const published = site.publisher.slots.get(name);
    const spec = this.specs.get(name);
    if (spec === undefined) {
      const isGone = name === "embed" ? published?.status.state === "offline" : published === undefined;
      return isGone ? undefined : `${name} is deleted, and yet ${JSON.stringify(published?.status)}`;
    }
    if (published === undefined) return `${name} is not published`;
    const { state } = published.status;
    const isUnloaded = site.requests.list(name).some(({ kind }) => kind === "unload");
    const isOff = spec.enabled === false || isUnloaded || name === "cold";
    // Another slot holds the port that this one wants, and no fault: it holds it.
    const isBlocked =
      site.condition(name, "Stalled") === "True/PortConflict" || published.plan.message.includes("in use by slot");
    if (isBlocked) return undefined;
    if (isOff ? state === "offline" : isAvailable(state) && site.condition(name, "Ready") === "True/Loaded")
      return undefined;
    return `${name} should be ${isOff ? "offline" : "ready"}: ${JSON.stringify(published.status)}`;
  }
}

/** The part of a spec that an engine is started with. */
function restarting(spec: SlotSpecInput | undefined): unknown {
  return [spec?.args, spec?.port, spec?.enabled];
}

// BERTH_RUNS asks for a longer hunt; only that shrinks what it finds. Neither outlasts its time limit.
const isHunt = process.env["BERTH_RUNS"] !== undefined;
const limits = { interruptAfterTimeLimit: isHunt ? 600_000 : 60_000, markInterruptAsFailure: false };

test("under any sequence of events, no status breaks a rule, no engine is stopped without cause, and all slots converge", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 5, maxLength: 30, size: "max" }), async (events) => {
      const site = new Site();
      await using stack = new AsyncDisposableStack();
      stack.defer(() => site.end());
      const course = new Course(site);
      for (const name of slots) course.specs.set(name, base[name]);
      await site.run(base, 0);
      for (const each of events) await course.apply(each);
      await course.mend();
      assert.deepEqual(
        slots.map((name) => course.wrong(name)).filter((problem) => problem !== undefined),
        [],
      );
    }),
    { numRuns: runs(8), endOnFailure: !isHunt, ...limits },
  );
});
