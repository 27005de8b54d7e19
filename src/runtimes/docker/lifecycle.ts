import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { ContainerCreateOptions } from "dockerode";
import type { RemoveOptions } from "../runtime.ts";
import { DaemonRefusal, type Daemon } from "./daemon.ts";
import { isAlive, type Living } from "./inspected.ts";

/** The first process of a container ignores TERM until it has installed a handler: a young one gets TERM again. */
const youngMs = 10_000;
const termAgainMs = 500;
const waitAgainMs = 200;
/** A container that stays this long after KILL hangs in the kernel. */
const killedMs = 30_000;

/** Creates a container of that name, or, where another container has it, of a similar one. Resolves with its id. */
export async function makeContainer(daemon: Daemon, name: string, options: ContainerCreateOptions): Promise<string> {
  const make = async (wanted: string): Promise<string> =>
    (await daemon.call((api) => api.createContainer({ ...options, name: wanted }))).id;
  try {
    return await make(name);
  } catch (error) {
    if (!(error instanceof DaemonRefusal) || error.status !== 409) throw error;
    return await make(`${name}-${randomUUID().slice(0, 8)}`);
  }
}

/**
 * TERM, then KILL after `stopSeconds` or on abort; resolves once nothing of it runs. Rejects when `closing` aborts: the
 * next operator continues.
 */
export async function endContainer(
  daemon: Daemon,
  container: Living,
  { stopSeconds, signal }: RemoveOptions,
  closing: AbortSignal,
): Promise<void> {
  if (!isAlive(container)) return;
  const woken = signal === undefined ? closing : AbortSignal.any([signal, closing]);
  const { id, info } = container;
  const waiting = new AbortController();
  const over = ended(daemon, id, waiting.signal);
  try {
    // A paused program gets no signal.
    if (info.State.Paused) await daemon.settle((api) => api.getContainer(id).unpause());
    const killAt = performance.now() + stopSeconds * 1000;
    while (!isAborted(signal) && performance.now() < killAt) {
      await daemon.settle((api) => api.getContainer(id).kill({ signal: "SIGTERM" }));
      // A timer may fire a little early, and the program would get TERM once more.
      const left = Math.max(0, Math.ceil(killAt - performance.now()) + 1);
      if (await Promise.race([over, pause(isYoung(container) ? Math.min(left, termAgainMs) : left, woken)])) return;
      closing.throwIfAborted();
    }
    await daemon.settle((api) => api.getContainer(id).kill({ signal: "SIGKILL" }));
    if (await Promise.race([over, pause(killedMs, closing)])) return;
    closing.throwIfAborted();
    throw new Error(`container ${id.slice(0, 12)} is still there ${killedMs / 1000} s after SIGKILL`);
  } finally {
    waiting.abort();
  }
}

/** True once nothing of it runs, false on abort. A wait that the daemon cuts, as when it restarts, starts again. */
async function ended(daemon: Daemon, id: string, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    try {
      await daemon.find(
        (api) => api.getContainer(id).wait({ condition: "not-running", abortSignal: signal }),
        "asAborted",
      );
      return true;
    } catch {
      // The other requests report that the daemon is down.
      await pause(waitAgainMs, signal);
    }
  }
  return false;
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** Not where the clock was set back since: an engine takes a second TERM as an order to end at once. */
function isYoung({ info }: Living): boolean {
  const ageMs = Date.now() - Date.parse(info.State.StartedAt);
  return ageMs >= 0 && ageMs < youngMs;
}

/** False after that time, or as soon as `signal` aborts. */
async function pause(ms: number, signal: AbortSignal): Promise<false> {
  await delay(ms, undefined, { ref: false, signal }).catch(() => undefined);
  return false;
}
