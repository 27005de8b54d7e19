import type { SlotStatus } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import { isRefusal } from "../../engines/engine.ts";
import type { SlotInput } from "../plan/input.ts";
import { healthOf } from "../plan/input.ts";
import type { Outcome } from "./outcome.ts";

// Values that are decided when a slot is loaded, and kept until its engine stops (DECISIONS 2).

/**
 * The protocols that the engine answered; until it is warm those of its adapter; and for an adopted engine the
 * published ones, even if another `llama-server` is on PATH meanwhile.
 */
export function protocolsOf(before: SlotStatus, outcome: Outcome): SlotStatus["protocols"] {
  const running = outcome.observed.filter(({ phase }) => phase === "running");
  const main = running.find(
    (process) => process.role === "main" && healthOf(outcome, process)?.protocols !== undefined,
  );
  const seen = main === undefined ? undefined : healthOf(outcome, main)?.protocols;
  if (seen !== undefined && outcome.started.length === 0) return [...seen];
  const isKept = before.processes.length > 0 && running.some(({ hash }) => hash === before.workloadHash);
  return isKept && outcome.started.length === 0 ? before.protocols : [...outcome.protocols];
}

/** Derived values, each with its reason. */
export function decisionsOf(input: SlotInput, before: SlotStatus, outcome: Outcome): SlotStatus["decisions"] {
  if (!outcome.observed.some(({ phase }) => phase === "running")) return {};
  // A replica that is started now uses the present decisions.
  const isStarted = outcome.started.some(({ role }) => role === "main");
  const isKept = !isStarted && before.processes.some(({ role }) => role === "main");
  if (before.decisions["threads"] !== undefined && isKept) {
    const isScaled = (input.before?.spec.replicas ?? 1) < (input.spec?.replicas ?? 1);
    return isScaled ? { ...before.decisions, threads: threadsIn(input) } : before.decisions;
  }
  return {
    runtime: {
      value: input.runtime,
      reason: input.reasons?.runtime ?? "what this installation offers",
    },
    ...(input.backend === undefined || input.reasons === undefined
      ? {}
      : { backend: { value: input.backend, reason: input.reasons.backend } }),
    ...input.derived,
    threads: threadsIn(input),
    ...(input.model?.fingerprint === undefined
      ? {}
      : { modelFingerprint: { value: input.model.fingerprint, reason: "size and time of the file that was loaded" } }),
  };
}

function threadsIn({ threads }: SlotInput): SlotStatus["decisions"][string] {
  return { value: String(threads.value), reason: threads.reason };
}

/** The image of the next start, with its digest where it is named or where a running engine tells it. */
export function imageOf(
  { workloads }: Pick<SlotInput, "workloads">,
  running: readonly Observed[],
): Pick<SlotStatus, "image" | "imageDigest"> {
  const workload = isRefusal(workloads) ? undefined : workloads[0];
  const image = workload?.container?.image;
  if (workload === undefined || image === undefined) return {};
  // An engine of another hash may have another image.
  const reported = running.find(({ hash, imageDigest }) => hash === workload.hash && imageDigest !== undefined);
  const [, digest = reported?.imageDigest] = image.split("@");
  return { image, ...(digest === undefined ? {} : { imageDigest: digest }) };
}
