import { constants } from "node:os";
import type { Exit, Observed, PodExit } from "../../api/workload.ts";
import { causeLine } from "../exit-cause.ts";
import type { ContainerStatus, Pod, Terminated } from "./pod-object.ts";
import { engineContainer } from "./pod.ts";
import { pullExit, pullReasons } from "./pull-failure.ts";

/** Shells and container runtimes report 128 + n for a program that signal n ended. */
const firstSignalCode = 128;

/** The kubelet's reasons of a container that cannot be made or begun as it is declared. */
const startReasons: ReadonlySet<string> = new Set([
  "StartError",
  "ContainerCannotRun",
  "RunContainerError",
  "CreateContainerError",
]);

/**
 * Why the engine of this Pod has ended, or can never begin; undefined while it runs or may still begin. The kubelet
 * starts an ended container again: the operator counts that as an end, and replaces the Pod. `adopted`: the number of
 * starts before the one that the operator has found running, and took over.
 */
export function exitOf(pod: Pod, adopted: number): Observed["exit"] {
  const engine = pod.status.containerStatuses.find(({ name }) => name === engineContainer);
  return (
    disrupted(pod) ??
    (engine === undefined ? undefined : (ended(pod, engine, adopted) ?? cannotBegin(pod, engine))) ??
    deleted(pod) ??
    failed(pod)
  );
}

/** The Pod as a whole was ended from outside: by its node, by the scheduler, by an eviction. */
function disrupted(pod: Pod): PodExit | undefined {
  const { status } = pod;
  const node = pod.spec.nodeName ?? "its node";
  const at = new Date().toISOString();
  const target = status.conditions.find(({ type, status: is }) => type === "DisruptionTarget" && is === "True");
  const said = target?.message ?? status.message ?? "";
  const because = said === "" ? "" : `: ${said}`;
  if (target?.reason === "PreemptionByScheduler") {
    const what = `its Pod was preempted for a Pod of higher priority${because}`;
    return { reason: "Preempted", message: `${what}; a priorityClassName in podTemplate.spec prevents that`, at };
  }
  if (status.reason === "Evicted" || target?.reason === "TerminationByKubelet") {
    const what = `node ${node} evicted its Pod${because}`;
    return { reason: "Evicted", message: `${what}; set resources.memoryBytes to what it needs, or free the node`, at };
  }
  if (target?.reason === "EvictionByEvictionAPI")
    return { reason: "Evicted", message: `its Pod was evicted, as when node ${node} is drained${because}`, at };
  if (
    target?.reason === "DeletionByTaintManager" ||
    target?.reason === "DeletionByPodGC" ||
    status.reason === "NodeLost"
  ) {
    const what = `node ${node} is lost or tainted${because}`;
    return { reason: "NodeLost", message: `${what}; see kubectl describe node ${node}`, at };
  }
  return undefined;
}

/** The engine's first end: of this run, or of the one before the kubelet started it again. */
function ended(pod: Pod, { state, lastState, restartCount }: ContainerStatus, adopted: number): Observed["exit"] {
  const terminated =
    state.terminated ?? (restartCount > adopted || state.running === undefined ? lastState.terminated : undefined);
  if (isLost(terminated)) return undefined;
  if (terminated !== undefined) return exitFrom(pod, terminated);
  if (restartCount <= adopted) return undefined;
  return { reason: "Unknown", message: "it ended, and the kubelet started it again", at: new Date().toISOString() };
}

/**
 * Whether the container went with its node, as at a boot: containerd knows no exit of it, and the kubelet starts it again.
 * https://github.com/containerd/containerd/blob/main/internal/cri/server/helpers.go (unknownExitCode, unknownExitReason)
 */
export function isLost(terminated: Terminated | undefined): boolean {
  return terminated?.exitCode === 255 && terminated.reason === "Unknown";
}

function exitFrom(pod: Pod, { exitCode, signal, reason, message = "", finishedAt }: Terminated): Exit {
  const at = dateOf(finishedAt).toISOString();
  if (startReasons.has(reason ?? "")) return { reason: "StartFailed", message: cannotStart(message), at };
  const code = exitCode;
  const byNumber = signal === undefined || signal === 0 ? exitCode - firstSignalCode : signal;
  const name = Object.entries(constants.signals).find(([, number]) => number === byNumber)?.[0];
  const telling = causeLine(message.split(/[\r\n]/), name !== undefined);
  const said = telling === "" ? "" : `: ${telling}`;
  if (reason === "OOMKilled") {
    const bytes = pod.spec.containers.find((each) => each.name === engineContainer)?.resources?.limits?.["memory"];
    const bound = bytes === undefined ? "the node had no more" : `its limit is ${bytes} bytes, resources.memoryBytes`;
    return { reason: "OOMKilled", code, message: `the kernel killed it: out of memory (${bound})${said}`, at };
  }
  if (name !== undefined) return { reason: "Signalled", signal: name, code, message: `ended by ${name}${said}`, at };
  return { reason: "Exited", code, message: `exited with code ${code}${said}`, at };
}

/** The program's name and the kernel's words are at the end of the chain of the runtime's errors. */
function cannotStart(said: string): string {
  const exec = /(exec:? .*?|executable file .*? not found in \$PATH|crun: .*?)(: unknown)?$/i.exec(said.trim());
  return `its program cannot be started: ${exec?.[1] ?? said.trim()}`;
}

/** The container waits for something that no waiting brings. */
function cannotBegin(pod: Pod, { state }: ContainerStatus): Observed["exit"] {
  const { reason = "", message = "" } = state.waiting ?? {};
  const at = new Date().toISOString();
  if (pullReasons.has(reason)) {
    const image = pod.spec.containers.find(({ name }) => name === engineContainer)?.image ?? "";
    return { ...pullExit(image, reason, message), at };
  }
  if (startReasons.has(reason)) return { reason: "StartFailed", message: cannotStart(message), at };
  // A Secret or ConfigMap that is missing may still come: the kubelet tries again by itself.
  if (reason === "CreateContainerConfigError" && /run as root|runAsNonRoot|non-numeric user/i.test(message)) {
    const what = `its image runs as root, which the Pod forbids: ${message}`;
    return { reason: "StartFailed", message: `${what}; set runAsUser in podTemplate.spec.securityContext`, at };
  }
  return undefined;
}

/** Deleted by somebody else: this operator shows a Pod that it removes as running until it is gone. */
function deleted({ metadata }: Pod): PodExit | undefined {
  const { deletionTimestamp, name } = metadata;
  if (typeof deletionTimestamp !== "string") return undefined;
  return {
    reason: "PodDeleted",
    message: `its Pod ${name} was deleted from outside`,
    at: dateOf(deletionTimestamp).toISOString(),
  };
}

/** The kubelet did not admit it, or its Pod has ended for another reason. */
function failed({ status, spec }: Pod): Observed["exit"] {
  if (status.phase !== "Failed" && status.phase !== "Succeeded") return undefined;
  const at = new Date().toISOString();
  const said = status.message ?? "it does not say why";
  const where = spec.nodeName === undefined ? "" : ` on node ${spec.nodeName}`;
  return {
    reason: "NotAdmitted",
    message: `its Pod has ended${where} (${status.reason ?? status.phase}): ${said}`,
    at,
  };
}

function dateOf(time: string | null | undefined): Date {
  const date = new Date(time ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? new Date() : date;
}
