import type { Fit } from "../../api/fit.ts";
import { isSameProcess } from "../../api/process-ref.ts";
import { isRefusal } from "../../engines/engine.ts";
import type { Decision } from "./decision.ts";
import { doesNotFit, memoryReserved, noMemory, wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";

/** The memory that a slot asks its group for. `fit` undefined: the need is unknown. */
export interface WantedFit {
  readonly fit: Fit | undefined;
}

/** Equal for needs that are equal. */
export function needKey({ fit }: WantedFit): string {
  return fit === undefined ? "unknown" : JSON.stringify(fit.devices.map(({ id, needBytes }) => [id, needBytes]));
}

/** An engine that runs is to be replaced by one of another workload, as after a swap or an edit. */
export function isReplacing({ observed, workloads }: Pick<SlotInput, "observed" | "workloads">): boolean {
  if (isRefusal(workloads)) return false;
  return observed.some(
    (process) =>
      process.role === "main" &&
      process.phase === "running" &&
      workloads.some((each) => isSameProcess(each, process) && each.hash !== process.hash),
  );
}

/** The need that the slot's group must know beside the published one; `isRequesting`: the slot waits for its place. */
export function wantedFit(
  input: SlotInput,
  known: WantedFit | undefined,
  isRequesting: boolean,
): WantedFit | undefined {
  if (input.group === undefined) return undefined;
  const wanted = { fit: input.fit };
  if (isRequesting || isReplacing(input)) return wanted;
  // Until the status names the new engine's need, and while memory that was granted is not free yet.
  const isLate =
    isRefusal(input.workloads) && (input.workloads.reason === noMemory || input.workloads.reason === memoryReserved);
  const isUnwritten = input.observed.length === 0 && needKey(wanted) !== needKey({ fit: input.before?.status.fit });
  return known !== undefined && (isLate || isUnwritten) ? known : undefined;
}

/** Why the group has no room yet for what the slot would start; undefined: it has, or the slot has no group. */
export function roomAwaited(
  input: Pick<SlotInput, "group" | "fit">,
): { readonly message: string; readonly isHopeless: boolean } | undefined {
  const { group, fit } = input;
  if (group?.wanted === undefined) return undefined;
  const { key, grant } = group.wanted;
  const message = `group ${group.name} has not decided about its new need of memory yet`;
  if (key !== needKey({ fit })) return { message, isHopeless: false };
  if (grant.state === "granted") return undefined;
  if (grant.state === "waiting") return { message: grant.message, isHopeless: grant.isHopeless };
  return { message: grant.state === "pending" ? grant.message : message, isHopeless: false };
}

/**
 * Why the running engine is not replaced yet: the group gives the next model its memory before this one leaves. The
 * running model serves meanwhile.
 */
export function replacementAwaited(input: SlotInput): ReturnType<typeof roomAwaited> {
  if (input.group === undefined || wasState(input) === "unloading" || !isReplacing(input)) return undefined;
  if (input.group.wanted !== undefined) return roomAwaited(input);
  return { message: `group ${input.group.name} has not decided about its next model yet`, isHopeless: false };
}

/** The decision with the reason for which the next model is not loaded. */
export function withReplacement(input: SlotInput, decision: Decision): Decision {
  if (decision.severity !== "loaded") return decision;
  const awaited = replacementAwaited(input);
  if (awaited === undefined) return decision;
  const { message, isHopeless } = awaited;
  if (isHopeless) return { ...decision, severity: "stalled", reason: doesNotFit, message, steps: [] };
  const steps = [{ do: "wait", reason: message }] as const;
  return { ...decision, severity: "progressing", reason: "GroupFull", message, steps };
}
