import type { SlotSpecInput } from "../../src/api/slot.ts";
import { wellBehaved, type Manner } from "../doubles/runtime.ts";
import { fc } from "../support/fast-check.ts";
import type { Site } from "./site.ts";

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

/**
 * One thing that happens to a site with those slots, or to its machine. `disturbs`: the slot's engines may be stopped
 * for it. `isTold`: by its runtime, at once.
 */
export function eventOf<Slot extends string>(slots: readonly Slot[]) {
  const slot = fc.constantFrom(...slots);
  const edit = (spec: fc.Arbitrary<SlotSpecInput>, disturbs: boolean) =>
    fc.record({ do: fc.constant("edit" as const), slot, spec, disturbs: fc.constant(disturbs) });
  return fc.oneof(
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
}

export type Event<Slot extends string = string> =
  ReturnType<typeof eventOf<Slot>> extends fc.Arbitrary<infer E> ? E : never;

/** The manifests of slots: those that a new slot gets, and the present ones. */
export interface Manifests {
  readonly base: Readonly<Record<string, SlotSpecInput>>;
  readonly specs: Map<string, SlotSpecInput>;
}

/** Has it happen, but for what it entails: `settle` comes after. */
export async function happen(site: Site, event: Event, { base, specs }: Manifests): Promise<void> {
  switch (event.do) {
    case "edit": {
      const spec = { ...specs.get(event.slot), ...base[event.slot], ...event.spec };
      specs.set(event.slot, spec);
      site.source.save(event.slot, spec);
      break;
    }
    case "delete":
      specs.delete(event.slot);
      site.source.delete(event.slot);
      break;
    case "break":
      if (specs.has(event.slot)) site.source.break(event.slot);
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
      stranger(site, event.port, event.isThere, Object.keys(base));
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
}

const processes = ["main", "main-1", "main-2", "rerank"] as const;

/** Two cannot listen on one port: a stranger comes only where no engine of ours is. */
function stranger({ runtime }: Site, at: number, isThere: boolean, slots: readonly string[]): void {
  if (!isThere) runtime.strangers.delete(at);
  else if (!slots.some((name) => processes.some((process) => runtime.portOf(name, process) === at)))
    runtime.strangers.add(at);
}
