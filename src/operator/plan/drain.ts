import { stepProcess, type Step } from "../../api/plan.ts";
import type { ProcessRef } from "../../api/process-ref.ts";
import type { Observed } from "../../api/workload.ts";
import { running, stopAfterUse } from "./facts.ts";
import { at, type SlotInput } from "./input.ts";
import { isUnhealthy } from "./processes.ts";
import type { Verdict } from "./verdict.ts";

export interface Drain {
  /** The processes that stop then. */
  readonly processes: readonly Observed[];
  readonly message: string;
  /** Since when gateways are asked to send no more, in milliseconds since the epoch; undefined: from now on. */
  readonly since: number | undefined;
  /** When they are stopped whatever is in flight, likewise; undefined: once the engine hangs, and no sooner. */
  readonly deadline: number | undefined;
  /** Gateways let go of this process alone; absent: of the slot. */
  readonly only?: ProcessRef;
}

/** A gateway that ends causes no event: the drain is looked at again after this time. */
const againMs = 5000;

/** The steps that stop processes once gateways know, and have no request at them. */
export function drain(
  input: SlotInput,
  { processes, message, since, deadline, only }: Drain,
): Pick<Verdict, "steps" | "requeueMs"> {
  const now = input.now.getTime();
  const stops = stopAfterUse(input, processes, message);
  const { inFlight, seenRevision } = input.demand;
  const isReleased = since !== undefined && inFlight === 0 && seenRevision >= (input.before?.revision ?? 0);
  const isOver = deadline === undefined ? since !== undefined && isHung(input) : deadline <= now;
  if (isReleased || isOver) return { steps: stops };
  const until = deadline === undefined ? {} : { deadline: new Date(deadline).toISOString() };
  const step: Step = { do: "drain", ...(only === undefined ? {} : stepProcess(only)), reason: message, ...until };
  return { steps: [step, ...stops], requeueMs: Math.min(againMs, (deadline ?? Infinity) - now) };
}

/** The requests in flight get no answer any more: the engine of a slot that stays would be restarted for that. */
function isHung(input: SlotInput): boolean {
  const { demand, now, spec } = input;
  const sinceByteMs = now.getTime() - at(demand.lastByteAt ?? demand.lastRequestAt);
  const isOverdue = spec !== undefined && sinceByteMs > spec.probe.hungSeconds * 1000;
  return isOverdue && running(input).every((process) => isUnhealthy(input, process));
}
