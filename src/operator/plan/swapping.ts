import { isSameProcess } from "../../api/process-ref.ts";
import { isAvailable } from "../../api/states.ts";
import { isRefusal } from "../../engines/engine.ts";
import { drain } from "./drain.ts";
import { wasState, workloadsOf } from "./facts.ts";
import { replacementAwaited } from "./growth.ts";
import { at, type SlotInput } from "./input.ts";
import { swappingReason } from "./on-request.ts";
import { unloadingSince } from "./unloading.ts";
import type { Verdict } from "./verdict.ts";

/**
 * The loaded model leaves for the chosen one. Gateways send no new request once they know; requests in flight are waited
 * for without a limit, unless the engine hangs: no request is lost to a swap. All engines of a slot hold one model at
 * any time, also where it has replicas.
 */
export function swapping(input: SlotInput): Verdict | undefined {
  const { onRequest, before, held } = input;
  if (onRequest === undefined || isRefusal(input.workloads)) return undefined;
  const leaving = input.observed.filter(
    (process) => !workloadsOf(input).some((each) => isSameProcess(each, process) && each.hash === process.hash),
  );
  if (!leaving.some(({ role, phase }) => role === "main" && phase === "running")) return undefined;
  if (replacementAwaited(input) !== undefined) return undefined;
  const began = unloadingSince(input);
  if (began === undefined ? !isAvailable(wasState(input)) : began.reason !== swappingReason) return undefined;
  const loaded = before?.status.model.ref;
  if (began === undefined && (loaded === undefined || loaded === held.ref)) return undefined;
  const message = began?.message ?? messageOf(input, loaded);
  const since = began === undefined ? undefined : at(began.at);
  const drained = drain(input, { processes: leaving, message, since, deadline: undefined });
  return { severity: "leaving", reason: swappingReason, message, ...drained };
}

function messageOf({ onRequest, held }: SlotInput, loaded: string | undefined): string {
  return `${loaded ?? "its model"} leaves for ${held.ref ?? "another"}: ${onRequest?.reason ?? "a person has asked for it"}`;
}
