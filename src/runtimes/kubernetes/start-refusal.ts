import type { Exit, Observed, PodExit, Workload } from "../../api/workload.ts";
import { ApiError } from "../../kubernetes/api-error.ts";
import { BadWorkload } from "../start-failure.ts";
import { podName } from "./pod-label.ts";
import { SecretMissing } from "./pod-secrets.ts";

export type Refusal = Pick<Exit, "reason" | "message"> | Pick<PodExit, "reason" | "message">;

/** Why there is no Pod until somebody changes something; undefined when another attempt may succeed. */
export function startRefusal(error: unknown, namespace: string): Refusal | undefined {
  if (error instanceof SecretMissing) return { reason: "NoSecret", message: error.message };
  if (error instanceof BadWorkload) return { reason: "StartFailed", message: error.message };
  if (!(error instanceof ApiError)) return undefined;
  const { status, message } = error;
  if (status === 403 && message.includes("violates PodSecurity")) {
    const what = `the Pod Security level of namespace ${namespace} forbids its Pod: ${message}`;
    return {
      reason: "StartFailed",
      message: `${what}; ask for devices by resources.extended or resources.claims, or change the namespace's level`,
    };
  }
  if (status === 400 || status === 422) return { reason: "StartFailed", message: `its Pod is not valid: ${message}` };
  return undefined;
}

/** A start that was refused: there is no Pod to show, but there is a reason. */
export type RefusedStart = Observed & { readonly phase: "exited" };

export function refusedStart(workload: Workload, refusal: Refusal): RefusedStart {
  const { slot, role, ordinal, hash, port } = workload;
  const now = new Date();
  const name = podName(workload);
  return {
    slot,
    role,
    ordinal,
    hash,
    host: name,
    port,
    phase: "exited",
    isListening: false,
    isPortTaken: false,
    startedAt: now,
    id: { podName: name },
    exit: { ...refusal, at: now.toISOString() },
  };
}
