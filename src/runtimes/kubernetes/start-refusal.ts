import type { Exit, Observed, Workload } from "../../api/workload.ts";
import { ApiError } from "../../lib/kubernetes/api-error.ts";
import { podName } from "./pod-label.ts";

/** Why the API server will never take the Pod without a change; undefined when another attempt may succeed. */
export function startRefusal(error: unknown, namespace: string): Pick<Exit, "reason" | "message"> | undefined {
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

export function refusedStart(workload: Workload, refusal: Pick<Exit, "reason" | "message">): RefusedStart {
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
