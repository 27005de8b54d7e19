import { isDeepStrictEqual } from "node:util";
import type { Step } from "../../api/plan.ts";
import { furthest, isServed, stateOf, type Decision } from "./decision.ts";
import type { SlotInput } from "./input.ts";
import type { ProcessInput } from "./processes.ts";
import type { Verdict } from "./verdict.ts";

/** The verdict about one process, and its check; `rank`: that check's place in their order. */
export interface Judged {
  readonly input: ProcessInput;
  readonly verdict: Verdict;
  readonly check: string;
  readonly rank: number;
}

/**
 * One decision about the slot from the verdicts about its processes: its state is that of the furthest of its main
 * processes, its reason that of the most severe hindrance, or else of the first check with a result, and its steps are
 * those of all.
 */
export function compose(input: SlotInput, judged: readonly [Judged, ...Judged[]]): Decision {
  const [first] = judged;
  const mains = judged.filter(({ input: { process } }) => process.role === "main");
  const pool = mains.length > 0 ? mains : judged;
  const leaving = judged.filter(({ verdict }) => verdict.severity === "leaving");
  const isLeaving = pool.some((each) => leaving.includes(each));
  // During an unload nothing is done to the other processes, and no failure is counted.
  const acting = isLeaving ? leaving : judged;
  const steps = merged(acting.flatMap(({ verdict }) => verdict.steps));
  const served = isServed(input, steps);
  const stateIn = ({ verdict }: Judged) => stateOf(verdict, served);
  const state = furthest(input, pool.map(stateIn)) ?? stateIn(first);
  const leads = (state === "ready" ? judged : pool).filter((each) => stateIn(each) === state);
  const lead = leads.toSorted((one, other) => weight(one) - weight(other) || one.rank - other.rank)[0] ?? first;
  const failed = [lead, ...acting].find(({ verdict }) => verdict.failure !== undefined)?.verdict.failure;
  const requeues = acting.flatMap(({ verdict }) => verdict.requeueMs ?? []);
  const { failure: _own, requeueMs: _requeue, ...verdict } = lead.verdict;
  return {
    ...verdict,
    state,
    isServed: served,
    steps,
    ...(failed === undefined ? {} : { failure: failed }),
    ...(requeues.length === 0 ? {} : { requeueMs: Math.min(...requeues) }),
    ...(isLeaving ? {} : { parts: judged.map((each) => ({ ...each.input.process, verdict: each.verdict })) }),
    check: lead.check,
  };
}

/** A hindrance that needs a person takes precedence over one that may end by itself. */
function weight({ verdict: { severity } }: Judged): number {
  if (severity === "stalled") return 0;
  return severity === "retrying" ? 1 : 2;
}

/** Leases are all or none and come first. Waits with one reason are one wait, until the first of their times. */
function merged(steps: readonly Step[]): Step[] {
  const [lease] = steps.filter((step) => step.do === "lease");
  const ports = steps.flatMap((step) => (step.do === "lease" ? step.ports : []));
  const others = steps.filter((step) => step.do !== "lease");
  const once = others.filter((step, index) => !others.some((other, at) => replaces(other, step, at < index)));
  const drains = once.filter((step) => step.do === "drain");
  return [
    ...(lease === undefined ? [] : [{ ...lease, ports }]),
    ...drains,
    ...once.filter((step) => step.do !== "drain"),
  ];
}

function replaces(other: Step, step: Step, isBefore: boolean): boolean {
  if (other.do !== "wait" || step.do !== "wait") return isBefore && isDeepStrictEqual(other, step);
  if (other.reason !== step.reason) return false;
  const [sooner, later] = [other.until ?? "", step.until ?? ""];
  return sooner < later || (isBefore && sooner === later);
}

/** The decision once its failures are counted: they must not be counted again. */
export function withoutFailures({ failure: _told, parts, ...decision }: Decision): Decision {
  if (parts === undefined) return decision;
  return { ...decision, parts: parts.map((part) => ({ ...part, verdict: withoutFailure(part.verdict) })) };
}

function withoutFailure({ failure: _told, ...verdict }: Verdict): Verdict {
  return verdict;
}
