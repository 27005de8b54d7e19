import { setTimeout as delay } from "node:timers/promises";
import { isStatus } from "../../kubernetes/api-error.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import type { RemoveOptions } from "../runtime.ts";
import type { Pod } from "./pod-object.ts";
import type { PodView } from "./pod-view.ts";

/** A Pod that stays this long after its time to stop is on a node that does not answer. */
const lateMs = 60_000;
/** In case the event of its end was lost. */
const pollMs = 5000;
/** After an abort: the request to end the Pod at once is repeated until the Pod is gone. */
const hurryMs = 1000;

/**
 * Deletes the Pod: TERM, then KILL after `stopSeconds`, or after a second where `signal` was aborted before. A later abort
 * asks for the same, which the node's kubelet may not follow. Resolves once the node has confirmed that nothing of the Pod
 * runs. Rejects when `closing` aborts: the next operator continues.
 */
export async function endPod(
  view: PodView,
  pod: Pod,
  { stopSeconds, signal }: RemoveOptions,
  closing: AbortSignal,
): Promise<void> {
  const { name, uid } = pod.metadata;
  // 0 would remove the object alone, whatever its node does. The kubelet keeps the first grace period that it acts on, and
  // takes a shorter one for a second only: https://github.com/kubernetes/kubernetes/issues/113606
  const graceSeconds = signal?.aborted === true ? 1 : Math.max(1, Math.ceil(stopSeconds));
  const requestDeletion = async (gracePeriodSeconds: number): Promise<boolean> => {
    const body = { gracePeriodSeconds, preconditions: { uid }, propagationPolicy: "Background" };
    try {
      await view.request("DELETE", "pods", name, { body, signal: closing });
      return true;
    } catch (error) {
      if (isStatus(error, 404)) return false;
      if (!isStatus(error, 409)) throw error;
      // Another Pod has the name by now; else another client has changed this Pod at the same moment.
      if (await isMissing(view, pod)) return false;
      throw new RuntimeUnavailable(`the Pod ${name} was changed while it was deleted`, { cause: error });
    }
  };
  if (!(await requestDeletion(graceSeconds))) return;
  const gone = Promise.withResolvers<void>();
  const isGone = (): boolean => view.get(name)?.metadata.uid !== uid;
  const check = (): void => {
    if (isGone()) gone.resolve();
  };
  using _changes = view.onChange(name, check);
  const ended = new AbortController();
  const waiting = AbortSignal.any([closing, ended.signal]);
  const endSoon = (): void => void requestDeletion(1).catch(() => undefined);
  signal?.addEventListener("abort", endSoon, { once: true });
  // Aborted while the first deletion was on its way.
  if (signal?.aborted === true && graceSeconds > 1) endSoon();
  const deadline = performance.now() + graceSeconds * 1000 + lateMs;
  try {
    check();
    for (;;) {
      const nextMs = signal?.aborted === true ? hurryMs : pollMs;
      const isOver = await Promise.race([gone.promise.then(() => true), pause(nextMs, waiting)]);
      if (isOver || (await isMissing(view, pod))) return;
      closing.throwIfAborted();
      // The API server may not have taken the first one; a repeated one changes nothing.
      if (signal?.aborted === true) endSoon();
      if (performance.now() > deadline) throw new Error(lateMessage(pod, graceSeconds));
    }
  } finally {
    ended.abort();
    signal?.removeEventListener("abort", endSoon);
  }
}

function lateMessage({ metadata, spec }: Pod, graceSeconds: number): string {
  const node = spec.nodeName ?? "its node";
  return (
    `the Pod ${metadata.name} is still there ${Math.round(graceSeconds + lateMs / 1000)} s after it was deleted: node ${node} ` +
    `does not confirm its end. See kubectl describe node ${node}; where that machine is off for good, ` +
    `kubectl delete pod ${metadata.name} --force`
  );
}

async function isMissing(view: PodView, { metadata }: Pod): Promise<boolean> {
  try {
    const object = await view.request("GET", "pods", metadata.name);
    view.note(object);
    return view.get(metadata.name)?.metadata.uid !== metadata.uid;
  } catch (error) {
    if (isStatus(error, 404)) return true;
    if (error instanceof RuntimeUnavailable) return false;
    throw error;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<false> {
  await delay(ms, undefined, { ref: false, signal }).catch(() => undefined);
  return false;
}
