import type { FailedRef, OnRequest } from "../../api/on-request.ts";

/** The demand for one model of a slot, of all gateways. */
export interface ModelDemand {
  /** Requests that wait. */
  readonly held: number;
  readonly inFlight: number;
  /** How long the oldest of those has waited. */
  readonly waitedMs: number;
}

/** The state of the slot's engine. `leaving`: it is being stopped, or was stopped for the chosen model just now. */
export type Residence =
  | { readonly phase: "none" }
  | { readonly phase: "loading" | "leaving"; readonly ref: string }
  | {
      readonly phase: "ready";
      readonly ref: string;
      readonly readyMs: number;
      /** The slot has answered a request since it became ready. */
      readonly wasUsed: boolean;
    };

/** The facts for the choice of a model. */
export interface ChoiceFacts {
  /** All models that a request may name. */
  readonly refs: readonly string[];
  /** The present choice. */
  readonly chosen: string;
  readonly residence: Residence;
  /** The files of the chosen model are being fetched, beside an engine that may run. */
  readonly isFetching: boolean;
  /** The chosen model cannot be loaded now. */
  readonly isFailing: boolean;
  /** A person has asked for the chosen model, which is not loaded yet. */
  readonly isOrdered: boolean;
  readonly demand: ReadonlyMap<string, ModelDemand>;
  /** Models whose last load failed, with the time until their next attempt. */
  readonly barredMs: ReadonlyMap<string, number>;
  readonly maxWaitMs: number;
  readonly minResidencyMs: number;
}

/** The model to hold from now on. */
export interface Choice {
  readonly ref: string;
  /** Why another model was chosen; absent: the choice stays. */
  readonly reason?: string;
  /** When time alone changes the choice. */
  readonly requeueMs?: number;
}

/** The choice among the models of a slot, for its plan and its status. */
export interface ModelChoice extends Omit<OnRequest, "failed"> {
  /** Failures of other models that still count. */
  readonly failed: readonly FailedRef[];
  /** Why another model was chosen just now. */
  readonly reason?: string;
  readonly requeueMs?: number;
}

/** A busy model stays for this long at least: else two models that both waited too long would swap unused. */
const leastTurnMs = 1000;
/** A loading model for which nobody waits is stopped for another one once that one has waited this long. */
const abandonedMs = 2000;
const noDemand: ModelDemand = { held: 0, inFlight: 0, waitedMs: 0 };

/**
 * Which of its models a slot holds. Pure. Of the models that requests wait for, the one with the oldest request is
 * next. It takes the place of the loaded model once that one is idle and has stayed long enough, or once its own
 * request has waited for `maxWaitMs`. A model that loads is left alone while anybody waits for it; one that cannot be
 * loaded gives way at once.
 */
export function chooseModel(facts: ChoiceFacts): Choice {
  const { chosen, residence, isFailing, isFetching, isOrdered, maxWaitMs } = facts;
  const serving = residence.phase === "ready" ? residence.ref : undefined;
  if (isFailing && serving !== undefined && serving !== chosen && facts.refs.includes(serving))
    return { ref: serving, reason: `${chosen} cannot be loaded, and ${serving} still is` };
  const next = firstWaiting(facts, serving);
  if (next === undefined) return { ref: chosen, ...requeueIn([soonestAttempt(facts)]) };
  const { ref, waitedMs } = next;
  const take = (reason: string): Choice => ({ ref, reason });
  const stay = (...laterMs: number[]): Choice => ({ ref: chosen, ...requeueIn([...laterMs, soonestAttempt(facts)]) });
  if (isFailing) return take(`${ref} is requested, and ${chosen} cannot be loaded`);
  const own = facts.demand.get(chosen) ?? noDemand;
  const isAwaited = own.held > 0 || isOrdered;
  if (isFetching && residence.phase !== "leaving") {
    if (!isAwaited) return take(`${ref} is requested, and no request waits for ${chosen}`);
    return waitedMs >= maxWaitMs
      ? take(`${ref} is requested, and ${chosen} is still fetched`)
      : stay(maxWaitMs - waitedMs);
  }
  switch (residence.phase) {
    case "none":
      return isOrdered || (own.held > 0 && own.waitedMs >= waitedMs) ? stay() : take(`${ref} is requested`);
    case "leaving":
      return stay();
    case "loading":
      if (isAwaited || residence.ref !== chosen) return stay();
      return waitedMs >= abandonedMs
        ? take(`${ref} is requested, and no request waits for ${chosen}`)
        : stay(abandonedMs - waitedMs);
    case "ready":
      return residence.ref === chosen ? fromReady(facts, residence, next, { take, stay }) : stay();
    default:
      return residence satisfies never;
  }
}

interface Waiter {
  readonly ref: string;
  readonly waitedMs: number;
}

function fromReady(
  { demand, chosen, maxWaitMs, minResidencyMs }: ChoiceFacts,
  { readyMs, wasUsed }: Extract<Residence, { phase: "ready" }>,
  { ref, waitedMs }: Waiter,
  { take, stay }: { take: (reason: string) => Choice; stay: (...laterMs: number[]) => Choice },
): Choice {
  const { held, inFlight } = demand.get(chosen) ?? noDemand;
  const isIdle = held + inFlight === 0;
  const stayMs = wasUsed ? minResidencyMs : 0;
  if (isIdle && readyMs >= stayMs) return take(`${ref} is requested, and ${chosen} is idle`);
  const turnMs = Math.max(minResidencyMs, leastTurnMs);
  const leftMs = Math.max(maxWaitMs - waitedMs, turnMs - readyMs);
  if (leftMs <= 0) return take(`a request has waited long enough for ${ref}`);
  return isIdle ? stay(stayMs - readyMs, leftMs) : stay(leftMs);
}

/** The model whose request has waited longest; of several, the first of the list. */
function firstWaiting(
  { refs, chosen, demand, barredMs }: ChoiceFacts,
  serving: string | undefined,
): Waiter | undefined {
  let first: Waiter | undefined;
  for (const ref of refs) {
    const { held, waitedMs } = demand.get(ref) ?? noDemand;
    // Requests that wait for a place at the engine that runs need no other one.
    if (ref === chosen || ref === serving || held === 0 || barredMs.has(ref)) continue;
    if (first === undefined || waitedMs > first.waitedMs) first = { ref, waitedMs };
  }
  return first;
}

/** A request may wait for the next attempt to load its model. */
function soonestAttempt({ barredMs, demand }: ChoiceFacts): number {
  const awaited = [...barredMs].filter(([ref]) => (demand.get(ref)?.held ?? 0) > 0);
  return Math.min(Infinity, ...awaited.map(([, ms]) => ms));
}

function requeueIn(ms: readonly number[]): Pick<Choice, "requeueMs"> {
  const soonest = Math.min(...ms);
  return soonest === Infinity ? {} : { requeueMs: Math.max(1, soonest) };
}
