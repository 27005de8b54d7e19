import { cacheTypesOf, savedContextBytes } from "../../api/context-cost.ts";
import type { GroupStatus } from "../../api/group-status.ts";
import type { ModelRecord } from "../../api/model.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { Demand, SlotStatus } from "../../api/status.ts";

/** The load time of a slot that was never measured. */
const defaultLoadSeconds = 10;
/** The prompt tokens that an engine reads in a second, where no answer has reported the speed. */
const defaultTokensPerSecond = 500;

/** The cost of coming back, of a slot that leaves for another. */
export type ReturnCost = NonNullable<GroupStatus["members"][number]["cost"]>;

/** The time until an evicted slot is restored: loaded, with the longest conversation in its cache read again. */
export function secondsOf({ loadSeconds = defaultLoadSeconds, contextSeconds = 0 }: ReturnCost = {}): number {
  return loadSeconds + contextSeconds;
}

export interface CostFacts {
  readonly status: Pick<SlotStatus, "lastLoad" | "decisions" | "context"> | undefined;
  readonly spec: Pick<SlotSpec, "model" | "replicas" | "args" | "env"> | undefined;
  readonly model: Pick<ModelRecord, "contextCost"> | undefined;
  /** The slot's demand at each gateway. */
  readonly demand: readonly Pick<Demand["slots"][string], "context">[];
}

/** By the measured time of the last load, and by the tokens that gateways have counted in the engine's answers. */
export function returnCost(facts: CostFacts): ReturnCost {
  const { startSeconds, warmSeconds = 0 } = facts.status?.lastLoad ?? {};
  const load = startSeconds === undefined ? {} : { loadSeconds: startSeconds + warmSeconds };
  const longest = facts.demand
    .flatMap(({ context }) => (context === undefined ? [] : [context]))
    .toSorted((one, other) => other.tokens - one.tokens)[0];
  // What a slot keeps over an unload is read from the disk while the slot is loaded, and is part of that time.
  if (longest === undefined || isKept(facts, longest.tokens)) return load;
  const { tokens, tokensPerSecond = defaultTokensPerSecond } = longest;
  return { ...load, contextTokens: tokens, contextSeconds: tokens / tokensPerSecond };
}

function isKept({ status, spec, model }: CostFacts, tokens: number): boolean {
  const keep = spec?.model.keepContext;
  if (spec === undefined || keep === undefined || status?.decisions["keepContext"]?.value !== "on") return false;
  const cost = model?.contextCost;
  const bytes = cost === undefined ? 0 : savedContextBytes(cost, tokens, cacheTypesOf(spec.args, spec.env));
  return status.context?.result !== "dropped" && bytes <= keep.maxBytes / (spec.replicas ?? 1);
}

/** Contexts grow with each answer: a figure that differs less is not published again. */
const leastChange = 0.25;

/** The published cost. */
export function shownCost(cost: ReturnCost, before: ReturnCost | undefined): ReturnCost {
  const isNear = (key: keyof ReturnCost): boolean => {
    const [now = 0, known = 0] = [cost[key], before?.[key]];
    return Math.abs(now - known) <= leastChange * known;
  };
  if (before !== undefined && isNear("loadSeconds") && isNear("contextTokens") && isNear("contextSeconds"))
    return before;
  const rounded = (seconds: number): number => Math.round(seconds * 1000) / 1000;
  const { loadSeconds, contextTokens, contextSeconds } = cost;
  return {
    ...(loadSeconds === undefined ? {} : { loadSeconds: rounded(loadSeconds) }),
    ...(contextTokens === undefined ? {} : { contextTokens }),
    ...(contextSeconds === undefined ? {} : { contextSeconds: rounded(contextSeconds) }),
  };
}

/** For people; undefined: the slot has nothing in its cache, as far as is known. */
export function costText(cost: ReturnCost | undefined): string | undefined {
  const { loadSeconds = defaultLoadSeconds, contextTokens, contextSeconds } = cost ?? {};
  if (contextTokens === undefined || contextSeconds === undefined) return undefined;
  const whole = (seconds: number): string => `${Math.round(seconds)} s`;
  const parts = `${whole(loadSeconds)} to load, ${whole(contextSeconds)} to read ${contextTokens} tokens of its cache again`;
  return `to come back takes about ${whole(secondsOf(cost))}: ${parts}`;
}
