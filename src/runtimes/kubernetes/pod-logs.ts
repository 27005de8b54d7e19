import { setTimeout as delay } from "node:timers/promises";
import { processName } from "../../api/process-ref.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import { isStatus } from "../../kubernetes/api-error.ts";
import { readObject, type ObjectMeta } from "../../kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { nanoseconds } from "../docker/frames.ts";
import type { LogLine, TailOptions } from "../logs/logs.ts";
import { podLabelIn, slotSelector } from "./pod-label.ts";
import { engineContainer } from "./pod.ts";

/** How soon the next Pod of a slot, or its container's next run, is followed. */
const pollMs = 1000;
/** A node that stops in the middle of its answer must not keep the slot from being reconciled. */
const firstLinesMs = 5000;
/** More lines than these are not kept for a reader that is slow. */
const waitingLines = 1000;

/**
 * The last `tail` lines of a slot's Pods, then, with `follow`, each new one until `signal` aborts, across Pods. The API
 * server asks the node; of a Pod that is gone nothing is left.
 */
export async function* tailPodLogs(client: ApiClient, slot: string, options: TailOptions): AsyncIterable<LogLine> {
  const { tail, follow, signal } = options;
  /** By the Pod's identity: the stamp of its last line. */
  const seen = new Map<string, bigint>();
  const old: Stamped[] = [];
  for (const pod of await podsOf(client, slot)) {
    const lines = await arrayOf(linesOf(client, pod, { tailLines: Math.max(1, tail), ...(signal && { signal }) }));
    seen.set(pod.uid, lines.at(-1)?.stamp ?? 0n);
    old.push(...lines);
  }
  const last = old.toSorted((a, b) => (a.stamp < b.stamp ? -1 : a.stamp > b.stamp ? 1 : 0));
  if (tail > 0) yield* last.slice(-tail).map(({ line }) => line);
  if (!follow) return;
  yield* followed(client, slot, seen, signal);
}

/** The first lines of a Pod's engine, up to that many bytes: those that come within `limitMs`; "" where none can be had. */
export async function firstPodLines(
  client: ApiClient,
  name: string,
  limitBytes: number,
  limitMs = firstLinesMs,
): Promise<string> {
  const path = `/api/v1/namespaces/${client.namespace}/pods/${name}/log`;
  const call = { query: { container: engineContainer, limitBytes }, signal: AbortSignal.timeout(limitMs) };
  const lines: string[] = [];
  try {
    for await (const line of await client.lines(path, call)) lines.push(line);
  } catch {
    // An unreadable log says nothing; the engine serves all the same.
  }
  return lines.join("\n");
}

interface Stamped {
  readonly stamp: bigint;
  readonly line: LogLine;
}

async function* followed(
  client: ApiClient,
  slot: string,
  seen: Map<string, bigint>,
  signal: AbortSignal | undefined,
): AsyncIterable<LogLine> {
  const stop = new AbortController();
  const ended = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal]);
  const waiting: LogLine[] = [];
  const running = new Map<string, Promise<void>>();
  let wake = Promise.withResolvers<void>();
  const copy = async (pod: ObjectMeta): Promise<void> => {
    const { uid } = pod;
    const since = seen.get(uid) ?? 0n;
    for await (const { stamp, line } of linesOf(client, pod, { since, follow: true, signal: ended })) {
      if (stamp <= since) continue;
      seen.set(uid, stamp);
      waiting.push(line);
      wake.resolve();
      while (waiting.length >= waitingLines && !ended.aborted) await pause(pollMs, ended);
    }
  };
  // Lines may come much more often than Pods.
  let pollAt = 0;
  try {
    while (!ended.aborted) {
      const isDue = steadyNow() >= pollAt;
      if (isDue) pollAt = steadyNow() + pollMs;
      for (const pod of isDue ? await podsOf(client, slot).catch(() => []) : []) {
        const { uid } = pod;
        if (running.has(uid)) continue;
        running.set(
          uid,
          copy(pod)
            .catch(() => undefined)
            .finally(() => running.delete(uid)),
        );
      }
      const sleep = new AbortController();
      await Promise.race([
        wake.promise,
        pause(Math.max(1, pollAt - steadyNow()), AbortSignal.any([ended, sleep.signal])),
      ]);
      sleep.abort();
      wake = Promise.withResolvers();
      for (let line = waiting.shift(); line !== undefined; line = waiting.shift()) yield line;
    }
  } finally {
    stop.abort();
    await Promise.all(running.values());
  }
}

async function podsOf(client: ApiClient, slot: string): Promise<readonly ObjectMeta[]> {
  const path = `/api/v1/namespaces/${client.namespace}/pods`;
  const list = await client.request("GET", path, { query: { labelSelector: slotSelector(slot) } });
  const items: readonly unknown[] = isRecord(list) && Array.isArray(list["items"]) ? list["items"] : [];
  return items.flatMap((item) => readObject(item)?.meta ?? []);
}

async function* linesOf(
  client: ApiClient,
  pod: ObjectMeta,
  options: { tailLines?: number; since?: bigint; follow?: boolean; signal?: AbortSignal },
): AsyncIterable<Stamped> {
  const { tailLines, since = 0n, follow, signal } = options;
  const sinceTime = since === 0n ? undefined : new Date(Number(since / 1_000_000n)).toISOString();
  const query = { container: engineContainer, timestamps: true, tailLines, sinceTime, follow };
  const path = `/api/v1/namespaces/${client.namespace}/pods/${pod.name}/log`;
  const label = podLabelIn(pod.labels, pod.annotations);
  const process = label === undefined ? pod.name : processName(label);
  try {
    for await (const text of await client.lines(path, { query, ...(signal && { signal }) })) {
      const space = text.indexOf(" ");
      const stamp = nanoseconds(text.slice(0, Math.max(0, space)));
      const time = new Date(Number(stamp / 1_000_000n));
      yield { stamp, line: { time, stream: "output", line: text.slice(space + 1), process } };
    }
  } catch (error) {
    // No container yet, or no Pod any more.
    if (signal?.aborted !== true && !isStatus(error, 400, 404)) throw error;
  }
}

async function arrayOf<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { ref: false, signal }).catch(() => undefined);
}
