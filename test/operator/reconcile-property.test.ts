import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { isAvailable } from "../../src/api/states.ts";
import { wellBehaved, type Manner } from "../doubles/runtime.ts";
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

const slot = fc.constantFrom(...slots);
const port = fc.constantFrom(8081, 8082, 8083);
const harmless = fc.constantFrom<SlotSpecInput[]>(
  { aliases: ["gpt-4"] },
  { stopSeconds: 3 },
  { stopSeconds: 8, concurrency: { max: 2, queue: 2 } },
  { probe: { intervalSeconds: 2 } },
);
const disturbing: fc.Arbitrary<SlotSpecInput> = fc.oneof(
  fc.record({ args: fc.constantFrom<string[][]>(["--x"], ["--y"]) }),
  fc.record({ enabled: fc.boolean() }),
  fc.record({ port }),
  fc.record({ replicas: fc.constantFrom(1, 2, 3) }),
);
const manner: fc.Arbitrary<Partial<Manner>> = fc.oneof(
  fc.record({ crashAfterMs: fc.constantFrom(5, 400, 70_000, undefined) }),
  fc.record({ probe: fc.constantFrom("failing" as const, "hanging" as const, "warm-up-fails" as const) }),
  fc.record({ cannotStart: fc.boolean() }),
  fc.record({ loadMs: fc.constantFrom(0, 900, 30_000) }),
  fc.constant(wellBehaved),
);
const edit = (spec: fc.Arbitrary<SlotSpecInput>, disturbs: boolean) =>
  fc.record({ do: fc.constant("edit" as const), slot, spec, disturbs: fc.constant(disturbs) });

/** What happens to a site. `disturbs`: the slot's engines may be stopped for it. `isTold`: by its runtime, at once. */
const event = fc.oneof(
  edit(harmless, false),
  edit(disturbing, true),
  fc.record({ do: fc.constantFrom("delete" as const, "break" as const), slot }),
  fc.record({
    do: fc.constantFrom("kill" as const, "lose" as const),
    slot,
    process: fc.constantFrom("main", "main-1", "rerank"),
    isTold: fc.boolean(),
  }),
  fc.record({ do: fc.constant("behave" as const), slot, manner }),
  fc.record({
    do: fc.constant("request" as const),
    slot,
    kind: fc.constantFrom("restart" as const, "load" as const, "unload" as const),
  }),
  fc.record({ do: fc.constant("demand" as const), slot, held: fc.nat(1), inFlight: fc.nat(1) }),
  fc.record({ do: fc.constant("model" as const), isThere: fc.boolean() }),
  fc.record({ do: fc.constant("stranger" as const), port, isThere: fc.boolean() }),
  fc.record({ do: fc.constant("gateway" as const), isSlow: fc.boolean() }),
  {
    arbitrary: fc.record({ do: fc.constant("wait" as const), seconds: fc.constantFrom(0.03, 1, 6, 25, 90) }),
    weight: 6,
  },
  fc.record({ do: fc.constant("restart operator" as const) }),
  fc.record({ do: fc.constant("fail" as const), effects: fc.nat(4), isDeath: fc.boolean() }),
);
type Event = typeof event extends fc.Arbitrary<infer E> ? E : never;

/** Applies events, and remembers since when which slot's engines may be stopped. */
class Course {
  readonly site: Site;
  readonly specs = new Map<Slot, SlotSpecInput>();
  readonly #disturbed = new Map<string, number>();
  #judged = 0;

  constructor(site: Site) {
    this.site = site;
  }

  async apply(event: Event): Promise<void> {
    const { site } = this;
    const time = site.clock.now().getTime();
    if ("slot" in event && (event.do !== "edit" || event.disturbs) && event.do !== "break") {
      if (event.do !== "kill" && event.do !== "lose" && event.do !== "demand") this.#disturbed.set(event.slot, time);
    }
    switch (event.do) {
      case "edit": {
        const spec = { ...this.specs.get(event.slot), ...base[event.slot], ...event.spec };
        if (JSON.stringify(restarting(spec)) !== JSON.stringify(restarting(this.specs.get(event.slot)))) {
          this.#disturbed.set(event.slot, time);
        }
        this.specs.set(event.slot, spec);
        site.source.save(event.slot, spec);
        break;
      }
      case "delete":
        this.specs.delete(event.slot);
        site.source.delete(event.slot);
        break;
      case "break":
        if (this.specs.has(event.slot)) site.source.break(event.slot);
        break;
      case "kill":
        site.runtime.kill(event.slot, event.process, event.isTold);
        break;
      case "lose":
        site.runtime.lose(event.slot, event.process, event.isTold);
        break;
      case "behave":
        Object.assign(site.runtime.manner(event.slot), event.manner);
        break;
      case "request":
        await site.request(event.slot, event.kind);
        break;
      case "demand": {
        const { held, inFlight } = event;
        site.demand.set(event.slot, { held, inFlight, lastRequestAt: site.clock.now().toISOString() });
        break;
      }
      case "model":
        site.setModel(
          "tiny",
          event.isThere ? {} : { state: "missing", reason: "ModelFileMissing", message: "tiny.gguf is gone" },
        );
        break;
      case "stranger":
        this.#stranger(event.port, event.isThere);
        break;
      case "gateway":
        site.demand.isSlow = event.isSlow;
        break;
      case "wait":
        await site.advance(event.seconds);
        break;
      case "restart operator":
        await site.start();
        break;
      case "fail":
        site.failAt(event.effects, event.isDeath);
        break;
      default:
        event satisfies never;
    }
    await site.settle();
    if (site.isDead) await site.start();
    this.judge();
  }

  /** Two cannot listen on one port: a stranger comes only where no engine of ours is. */
  #stranger(port: number, isThere: boolean): void {
    const { site } = this;
    if (!isThere) site.runtime.strangers.delete(port);
    else if (
      !slots.some((name) => ["main", "main-1", "rerank"].some((process) => site.runtime.portOf(name, process) === port))
    ) {
      site.runtime.strangers.add(port);
      for (const name of slots) this.#disturbed.set(name, site.clock.now().getTime());
    }
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
