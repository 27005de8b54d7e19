import type { Observed, Pending } from "../../api/workload.ts";
import { exitOf, isLost } from "./pod-exit.ts";
import type { ContainerStatus, Pod } from "./pod-object.ts";
import { engineContainer } from "./pod.ts";

export interface Seen {
  /** This operator is removing the Pod: it runs until it is gone. */
  readonly isBeingRemoved: boolean;
  /** The bearer in the Pod's Secret. */
  readonly bearer?: string;
  /** The end that was seen first: a container that the kubelet starts again and again has many. */
  readonly exit?: Observed["exit"];
  /** The engine's restarts that the operator takes over, as `adoptedRestarts` counts them. */
  readonly adopted?: number;
}

/**
 * The restarts that an operator takes over with the container that runs: those from before it first saw the Pod (`known`
 * undefined), and each after a boot of the node. The kubelet has started every container again by then, and to replace the
 * Pod would load its model a second time. What the API server says of a Pod right after a boot may still be older.
 */
export function adoptedRestarts({ status }: Pod, known: number | undefined): number {
  const engine = status.containerStatuses.find((each) => each.name === engineContainer);
  if (engine?.state.running === undefined) return known ?? 0;
  return known === undefined || isLost(engine.lastState.terminated) ? engine.restartCount : known;
}

/** The state of an engine by its Pod. */
export function observedOf(pod: Pod, { isBeingRemoved, bearer, exit: known, adopted = 0 }: Seen): Observed {
  const { slot, role, ordinal, hash, port, startedAt } = pod.label;
  const { name } = pod.metadata;
  const engine = pod.status.containerStatuses.find((each) => each.name === engineContainer);
  const begunAt = engine?.state.running?.startedAt;
  // A start by the kubelet that is taken over is another start: its model was lost with the one before.
  const isAgain = adopted > 0 && engine?.restartCount === adopted && typeof begunAt === "string";
  const base = {
    slot,
    role,
    ordinal,
    hash,
    // No request is sent there before the engine listens.
    host: pod.status.podIP ?? name,
    port,
    isPortTaken: false,
    startedAt: isAgain ? new Date(begunAt) : startedAt,
    id: { podName: name },
  } as const;
  const exit = known ?? exitOf(pod, adopted);
  const isDeletedByUs = isBeingRemoved && typeof pod.metadata.deletionTimestamp === "string";
  if (exit !== undefined && !isDeletedByUs) return { ...base, phase: "exited", isListening: false, exit };
  const pending = pendingOf(pod);
  // Without a name before it, it is the node's own number of the image.
  const imageDigest = /@(sha256:[0-9a-f]{64})$/.exec(engine?.imageID ?? "")?.[1];
  return {
    ...base,
    phase: "running",
    isListening: engine?.started === true && engine.state.running !== undefined && pod.status.podIP !== undefined,
    ...(bearer === undefined ? {} : { bearer }),
    ...(typeof begunAt === "string" ? { begunAt: new Date(begunAt) } : {}),
    ...(pending === undefined ? {} : { pending }),
    ...(imageDigest === undefined ? {} : { imageDigest }),
  };
}

/** The reason why the Pod's engine has not begun. */
function pendingOf({ metadata, spec, status }: Pod): Pending | undefined {
  const engine = status.containerStatuses.find((each) => each.name === engineContainer);
  if (engine?.state.running !== undefined) return undefined;
  const condition = (type: string): Pod["status"]["conditions"][number] | undefined =>
    status.conditions.find((each) => each.type === type);
  const scheduled = condition("PodScheduled");
  if (scheduled?.status === "False") {
    const said = scheduled.message ?? "no node takes it";
    if (scheduled.reason === "SchedulingGated")
      return { reason: "SchedulingGated", message: `its Pod waits behind a scheduling gate: ${said}`, isStuck: true };
    return { reason: "Unschedulable", message: `no node takes its Pod: ${said}${advice(said)}`, isStuck: true };
  }
  if (spec.nodeName === undefined) return { reason: "Scheduling", message: "its Pod waits for a node", isStuck: false };
  const waiting = engine?.state.waiting;
  if (waiting?.reason === "CreateContainerConfigError") {
    const said = waiting.message ?? "its configuration is incomplete";
    return { reason: "NoSecret", message: `its Pod waits for what it names: ${said}; create it`, isStuck: true };
  }
  const starter = status.initContainerStatuses.find((each) => !hasDoneItsPart(spec, each));
  if (starter !== undefined) {
    const why = starter.state.waiting?.message ?? starter.lastState.terminated?.message ?? "";
    const message = `its init container ${starter.name} has not ended yet${why === "" ? "" : `: ${why}`}`;
    return { reason: "Initializing", message, isStuck: starter.restartCount > 0 };
  }
  const more = `kubectl describe pod ${metadata.name} shows more`;
  // The node has made the Pod's network and volumes: what is left is the image.
  if (condition("PodReadyToStartContainers")?.status === "True") {
    const image = spec.containers.find(({ name }) => name === engineContainer)?.image ?? "";
    // The kubelet tells of no progress, and of a registry that does not answer only after minutes.
    const message = `node ${spec.nodeName} fetches the image ${image}; ${more}`;
    return { reason: "Pulling", message, isStuck: false };
  }
  const message = `node ${spec.nodeName} prepares its volumes and network; ${more}`;
  return { reason: "Preparing", message, isStuck: false };
}

/** An init container with `restartPolicy: Always` is a sidecar: it need not end, only begin. */
function hasDoneItsPart({ initContainers }: Pod["spec"], { name, state, started }: ContainerStatus): boolean {
  const isSidecar = initContainers.some((each) => each.name === name && each.restartPolicy === "Always");
  return isSidecar ? state.running !== undefined && started === true : state.terminated?.exitCode === 0;
}

function advice(said: string): string {
  const resource = /Insufficient ([a-z0-9.-]+\/[A-Za-z0-9._-]*[A-Za-z0-9])/.exec(said)?.[1];
  if (resource !== undefined)
    return ` (other Pods hold every ${resource}, or its device plugin does not run: give slots that share it one SlotGroup)`;
  if (/Insufficient memory/.test(said)) return " (lower resources.memoryBytes, or free memory)";
  if (/Insufficient cpu/.test(said)) return " (lower resources.cpus, or free processors)";
  if (/untolerated taint/.test(said)) return " (tolerate it in podTemplate.spec.tolerations)";
  if (/unbound immediate PersistentVolumeClaims|persistentvolumeclaim ".*" not found/.test(said))
    return " (its volume claim is not bound: see kubectl get pvc)";
  if (/node affinity|node selector/.test(said)) return " (change podTemplate.spec.nodeSelector or affinity)";
  return "";
}
