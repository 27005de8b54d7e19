import { isDeepStrictEqual } from "node:util";
import { canMove } from "../../api/states.ts";
import type { Step } from "../../api/plan.ts";
import type { SlotInput } from "./input.ts";
import type { Decision, OperatorState } from "./decision.ts";
import { wasState } from "./facts.ts";
import type { ProcessInput } from "./processes.ts";

/** The decision about one process, and its check; `rank`: that check's place in their order. */
export interface Judged {
  readonly input: ProcessInput;
  readonly decision: Decision;
  readonly check: string;
  readonly rank: number;
}

/** The slot's state is that of the furthest of its main processes, unless it is being unloaded. */
const order: readonly OperatorState[] = ["unloading", "ready", "warming", "starting", "pulling", "error", "offline"];

/**
 * One decision about the slot from those about its processes: its state is that of its main processes, its reason that
 * of the most severe failure, or else of the first check with a result, and its steps are those of all.
 */
export function compose(
  input: SlotInput,
  judged: readonly [Judged, ...Judged[]],
): Decision & { readonly check: string } {
  const [first] = judged;
  const mains = judged.filter(({ input: { process } }) => process.role === "main");
  const pool = mains.length > 0 ? mains : judged;
  const states = order.filter((state) => pool.some(({ decision }) => decision.state === state));
  // A forbidden transition goes through `error`, as where the last answering process has ended.
  const state = states.find((each) => canMove(wasState(input), each)) ?? states[0] ?? first.decision.state;
  const leads = (state === "ready" ? judged : pool).filter(({ decision }) => decision.state === state);
  const lead = leads.toSorted((one, other) => weight(one) - weight(other) || one.rank - other.rank)[0] ?? first;
  // During an unload nothing is done to the other processes, and no failure is counted.
  const acting = state === "unloading" ? judged.filter((each) => each.decision.state === state) : judged;
  const failed = [lead, ...acting].find(({ decision }) => decision.failure !== undefined)?.decision.failure;
  const requeues = acting.flatMap(({ decision }) => decision.requeueMs ?? []);
  const { failure: _own, requeueMs: _requeue, ...decision } = lead.decision;
  return {
    ...decision,
    steps: merged(acting.flatMap((each) => each.decision.steps)),
    ...(failed === undefined ? {} : { failure: failed }),
    ...(requeues.length === 0 ? {} : { requeueMs: Math.min(...requeues) }),
    ...(state === "unloading"
      ? {}
      : { parts: judged.map((each) => ({ ...each.input.process, decision: each.decision })) }),
    check: lead.check,
  };
}

/** A failure that needs a person takes precedence over one that is retried. */
function weight({ decision: { conditionSet } }: Judged): number {
  if (conditionSet === "stalled" || conditionSet === "loadedStalled") return 0;
  return conditionSet === "retrying" || conditionSet === "loadedRetrying" ? 1 : 2;
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
  return { ...decision, parts: parts.map((part) => ({ ...part, decision: withoutFailures(part.decision) })) };
}
