import type { SlotStatus } from "../../api/status.ts";
import { at, type SlotInput } from "../plan/input.ts";
import type { Decision } from "../plan/decision.ts";
import type { Outcome } from "./outcome.ts";

/** Timings of the last load; seconds with millisecond precision. */
export function loadOf(
  input: SlotInput,
  before: SlotStatus,
  decision: Decision,
  outcome: Pick<Outcome, "started">,
): Pick<SlotStatus, "lastLoad"> | undefined {
  const seconds = (fromMs: number): number => Math.max(0, Math.round(input.now.getTime() - fromMs) / 1000);
  if (outcome.started.length > 0 && decision.state === "starting") {
    const pulledAt =
      before.state === "pulling" ? before.transitions.findLast(({ to }) => to === "pulling")?.at : undefined;
    const pull = pulledAt === undefined ? {} : { pullSeconds: seconds(at(pulledAt)) };
    const { ref } = input.held;
    const loaded = { startedAt: input.now.toISOString(), ...(ref === undefined ? {} : { ref }), ...pull };
    return { lastLoad: { ...loaded, ...previousOf(before.lastLoad, ref) } };
  }
  const load = before.lastLoad;
  if (load === undefined) return undefined;
  const startedAt = at(load.startedAt);
  if (decision.state === "warming" && load.startSeconds === undefined) {
    return { lastLoad: { ...load, startSeconds: seconds(startedAt) } };
  }
  if (decision.state === "ready" && load.warmSeconds === undefined) {
    const startSeconds = load.startSeconds ?? seconds(startedAt);
    return { lastLoad: { ...load, startSeconds, warmSeconds: seconds(startedAt + startSeconds * 1000) } };
  }
  return { lastLoad: load };
}

/** The load before may have ended early: then the one before that counts. */
function previousOf(
  before: SlotStatus["lastLoad"],
  ref: string | undefined,
): Pick<NonNullable<SlotStatus["lastLoad"]>, "previous"> {
  if (before === undefined || before.ref !== ref) return {};
  const { startSeconds, warmSeconds, previous } = before;
  if (startSeconds !== undefined && warmSeconds !== undefined) return { previous: { startSeconds, warmSeconds } };
  return previous === undefined ? {} : { previous };
}
