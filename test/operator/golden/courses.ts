import assert from "node:assert/strict";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import type { Step } from "../../../src/api/plan.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { processName } from "../../../src/api/process-ref.ts";
import { fc } from "../../support/fast-check.ts";
import { eventOf, happen, type Event } from "../events.ts";
import { epoch } from "../fixture.ts";
import { custom, Site } from "../site.ts";

const grouped = { load: "onDemand", idleSeconds: 60, group: "gpu" } as const;

/** One slot of each sort that is decided about in its own way. */
const base = {
  a: custom(),
  cold: custom({ load: "onDemand", idleSeconds: 20 }),
  embed: { model: { default: "tiny", rerank: "ranker" } },
  many: custom({ replicas: 2 }),
  box: custom({ image: "example.test/engine:1", runtime: "docker" }),
  coder: custom({ model: { default: "m", onRequest: ["big", "tiny"], maxWaitSeconds: 30, minResidencySeconds: 5 } }),
  left: custom(grouped),
  right: custom(grouped),
} as const satisfies Readonly<Record<string, SlotSpecInput>>;
const slots = Object.keys(base);

const clients = fc.record({ held: fc.nat(1), inFlight: fc.nat(1) });
/** Beyond what happens to every site: containers, models that requests choose, groups, and the clock. */
const special = fc.oneof(
  { arbitrary: fc.record({ do: fc.constant("contend" as const), left: clients, right: clients }), weight: 2 },
  fc.record({ do: fc.constant("ask" as const), m: clients, big: clients, tiny: clients }),
  fc.record({ do: fc.constant("swap" as const), model: fc.constantFrom("m", "big", "tiny", "nobody") }),
  fc.record({ do: fc.constant("image" as const), is: fc.constantFrom("here", "absent", "fetching", "failed", "gone") }),
  fc.record({ do: fc.constant("daemon" as const), isUp: fc.boolean() }),
  fc.record({ do: fc.constant("pause" as const), slot: fc.constantFrom(...slots) }),
  fc.record({ do: fc.constant("deafen" as const), slot: fc.constantFrom(...slots) }),
  fc.record({
    do: fc.constant("pending" as const),
    slot: fc.constantFrom(...slots),
    is: fc.constantFrom("stuck", "over"),
  }),
  fc.record({ do: fc.constant("lend" as const), seconds: fc.constantFrom(0, 30) }),
  fc.record({ do: fc.constant("clock" as const), bySeconds: fc.constantFrom(-3600, 3600) }),
);
type Special = typeof special extends fc.Arbitrary<infer E> ? E : never;
type Happening = Event | { readonly special: Special };

const happening: fc.Arbitrary<Happening> = fc.oneof(
  eventOf(slots),
  special.map((each) => ({ special: each })),
);

/** The same courses in every run; `BERTH_COURSES` asks for more. */
export const courses: readonly (readonly Happening[])[] = fc.sample(
  fc.array(happening, { minLength: 20, maxLength: 40, size: "max" }),
  { numRuns: Number(process.env["BERTH_COURSES"] ?? 12), seed: 34 },
);

/** Runs one course, and writes down all that its users could see: events, published states, and deeds to engines. */
export async function recordOf(course: readonly Happening[]): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const site = new Site();
  stack.defer(() => site.end());
  const lines: string[] = [];
  /** Lines of one moment, by slot: who is reconciled first in a moment is of no account. */
  const moment = new Map<string, string[]>();
  let since = "";
  const tell = (slot: string, line: string): void => {
    if (time() !== since) endMoment();
    since = time();
    moment.set(slot, [...(moment.get(slot) ?? []), `${since} ${slot} ${line}`]);
  };
  const endMoment = (): void => {
    for (const slot of [...moment.keys()].toSorted()) lines.push(...(moment.get(slot) ?? []));
    moment.clear();
  };
  const time = (): string => ((site.clock.now().getTime() - epoch.getTime()) / 1000).toFixed(2).padStart(8);
  const last = new Map<string, string>();
  const { publisher } = site;
  const { onWrite } = publisher;
  let deeds = 0;
  const told = (): void => {
    for (const { did, slot, process } of site.runtime.deeds.slice(deeds)) tell(slot, `${did} ${process}`);
    deeds = site.runtime.deeds.length;
  };
  publisher.onWrite = (name) => {
    told();
    const line = stateOf(site.slot(name));
    if (last.get(name) !== line) tell(name, line);
    last.set(name, line);
    onWrite(name);
  };
  const specs = new Map<string, SlotSpecInput>(Object.entries(base));
  site.source.group("gpu", { minResidencySeconds: 5, maxWaitSeconds: 20 });
  await site.run(base, 0);
  for (const each of course) {
    endMoment();
    lines.push(`> ${JSON.stringify(each)}`);
    await ("special" in each ? apply(site, each.special) : happen(site, each, { base, specs }));
    await site.settle();
    if (site.isDead) await site.start();
    told();
  }
  await site.advance(30);
  assert.deepEqual(site.problems(), []);
  endMoment();
  return `${lines.join("\n")}\n`;
}

async function apply(site: Site, happening: Special): Promise<void> {
  const now = site.clock.now();
  switch (happening.do) {
    case "ask": {
      const refs = (["m", "big", "tiny"] as const).map((ref) => {
        const { held, inFlight } = happening[ref];
        return { ref, held, inFlight, ...(held === 0 ? {} : { waitingSince: now.toISOString() }) };
      });
      const held = refs.reduce((sum, each) => sum + each.held, 0);
      const inFlight = refs.reduce((sum, each) => sum + each.inFlight, 0);
      site.ask("coder", { held, inFlight, refs, ...(inFlight === 0 ? {} : { lastByteAt: now.toISOString() }) });
      break;
    }
    case "contend":
      site.ask("left", happening.left);
      site.ask("right", happening.right);
      break;
    case "swap":
      await site.request("coder", "swap-model", { model: happening.model, specModel: "m" });
      break;
    case "image":
      site.runtime.prepared = async () => preparations[happening.is];
      break;
    case "daemon":
      site.runtime.setContainerEngine(happening.isUp);
      break;
    case "pause":
      site.runtime.pause(happening.slot);
      break;
    case "deafen":
      site.runtime.deafen(happening.slot);
      break;
    case "pending":
      site.runtime.manner(happening.slot).pending = pendings[happening.is];
      break;
    case "lend":
      if (happening.seconds === 0) await site.groupStore.endLoan("gpu");
      else
        await site.groupStore.lend({
          schema: 1,
          group: "gpu",
          requestedAt: now.toISOString(),
          until: new Date(now.getTime() + happening.seconds * 1000).toISOString(),
        });
      break;
    case "clock":
      site.clock.set(happening.bySeconds * 1000);
      site.publisher.isClockSetBack ||= happening.bySeconds < 0;
      break;
    default:
      happening satisfies never;
  }
}

const preparations = {
  here: { state: "ready" },
  absent: { state: "absent", message: "the image is not here" },
  fetching: { state: "fetching", message: "the image is fetched", progress: { bytesDone: 1 } },
  failed: { state: "failed", reason: "PullFailed", message: "the registry broke off", isTerminal: false },
  gone: { state: "failed", reason: "ImageNotFound", message: "there is no such image", isTerminal: true },
} as const;

const pendings = {
  stuck: { reason: "Unschedulable", message: "no node takes it", isStuck: true },
  over: undefined,
} as const;

/** The part of a published state that a user or a gateway acts on, in one line. */
function stateOf({ generation, plan, status }: PublishedSlot): string {
  const { conditions, failures, lastError, nextRetryAt, processes, processFailures, restarts, state } = status;
  const words = [
    `${state}, generation ${generation}, ${status.model.ref ?? "no model"}: ${plan.reason}: ${plan.message}`,
    conditions.map(({ type, status: is, reason }) => `${type} ${is}/${reason}`).join(", "),
    plan.steps.map(stepOf).join(", "),
    processes
      .map((process) => {
        const { isReady, drainingSince, port } = process;
        const is = `${isReady ? " ready" : ""}${drainingSince === undefined ? "" : " drains"}`;
        return `${processName(process)} ${port}${is}`;
      })
      .join(", "),
    failures + restarts === 0 ? "" : `${failures} failures, ${restarts} restarts`,
    lastError === undefined ? "" : `${lastError.reason} at ${lastError.time}`,
    nextRetryAt === undefined ? "" : `next ${nextRetryAt}`,
    (processFailures ?? []).map((each) => `${processName(each)} ${each.failures} ${each.nextRetryAt ?? ""}`).join(", "),
    status.onRequest === undefined
      ? ""
      : `chosen ${status.onRequest.chosen}, failed ${status.onRequest.failed.map(({ ref, failures: times }) => `${ref} ${times}`).join(", ")}`,
    status.idleSince === undefined ? "" : `idle since ${status.idleSince}`,
  ];
  return words.filter((word) => word !== "").join(" | ");
}

function stepOf({ reason, ...step }: Step): string {
  const words = Object.entries(step).map(([key, value]) => {
    if (value === true) return key;
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  });
  return `${words.join(" ")} (${reason})`;
}
