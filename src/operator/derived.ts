import type { SlotStatus } from "../api/status.ts";
import { isRefusal } from "../engines/engine.ts";
import type { SlotInput } from "./input.ts";
import type { Outcome } from "./summarise.ts";

// What is decided when a slot is loaded, and kept until its engine stops (DECISIONS 2).

/**
 * What the engine was seen to speak; until it is warm what its adapter says; and what an earlier operator has seen,
 * whatever another `llama-server` would speak that was put on PATH meanwhile.
 */
export function protocolsOf(before: SlotStatus, outcome: Outcome): SlotStatus["protocols"] {
  const running = outcome.observed.filter(({ phase }) => phase === "running");
  const seen = outcome.health.main?.protocols;
  if (seen !== undefined && outcome.started === 0 && running.some(({ role }) => role === "main")) return [...seen];
  const isKept = before.processes.length > 0 && running.some(({ hash }) => hash === before.workloadHash);
  return isKept && outcome.started === 0 ? before.protocols : [...outcome.protocols];
}

/** Derived values, each with its reason. */
export function decisionsOf(input: SlotInput, before: SlotStatus, isRunning: boolean): SlotStatus["decisions"] {
  if (!isRunning) return {};
  const isKept = before.processes.some(({ role }) => role === "main");
  if (before.decisions["threads"] !== undefined && isKept) return before.decisions;
  return {
    runtime: {
      value: input.runtime,
      reason: input.reasons?.runtime ?? "what this installation offers",
    },
    ...(input.backend === undefined || input.reasons === undefined
      ? {}
      : { backend: { value: input.backend, reason: input.reasons.backend } }),
    ...input.derived,
    threads: { value: String(input.threads.value), reason: input.threads.reason },
    ...(input.model?.fingerprint === undefined
      ? {}
      : { modelFingerprint: { value: input.model.fingerprint, reason: "size and time of the file that was loaded" } }),
  };
}

/** The image of what is started now, with its digest where one is known. */
export function imageOf({ workloads }: SlotInput): Pick<SlotStatus, "image" | "imageDigest"> {
  const image = isRefusal(workloads) ? undefined : workloads[0]?.container?.image;
  if (image === undefined) return {};
  const [, digest] = image.split("@");
  return { image, ...(digest === undefined ? {} : { imageDigest: digest }) };
}
