import type { IncomingMessage } from "node:http";
import { findCondition } from "../../api/conditions.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { OperatorLiveness } from "../../store/store.ts";
import type { KnownSlot } from "../routing/index.ts";

export interface WaitQuery {
  readonly wait?: "ready" | "settled" | undefined;
  /** Seconds. */
  readonly timeout: number;
}

/** How often a wait for the operator checks that it lives: nothing reports a heartbeat that does not come. */
const livenessCheckMs = 1000;

/** No progress is expected: the slot runs, is offline, or waits for a person or for its next attempt. */
export function settled({ status }: KnownSlot): boolean {
  if (status === undefined) return false;
  if (status.state === "error") return true;
  const isWorking = findCondition(status.conditions, "Reconciling")?.status === "True";
  return !isWorking && !["pulling", "starting", "warming", "unloading"].includes(status.state);
}

/**
 * Checks at once and at every change that `watch` reports. Resolves when the condition holds, the time is over, or the
 * client has disconnected.
 */
export async function waitUntil(
  isOver: () => boolean,
  options: {
    readonly watch: (onChange: () => void) => Disposable;
    readonly timeoutMs: number;
    /** The client of the wait: it may have disconnected already. */
    readonly client: Pick<IncomingMessage, "socket">;
    /** Aborted when the gateway stops: the waiting client gets the present state. */
    readonly stopping: AbortSignal;
  },
): Promise<void> {
  const { watch, timeoutMs, client, stopping } = options;
  if (client.socket.destroyed || stopping.aborted || isOver()) return;
  const over = Promise.withResolvers<void>();
  const end = (): void => over.resolve();
  const timer = setTimeout(end, timeoutMs);
  client.socket.once("close", end);
  stopping.addEventListener("abort", end, { once: true });
  using _watching = watch(() => {
    if (isOver()) end();
  });
  await over.promise;
  clearTimeout(timer);
  client.socket.off("close", end);
  stopping.removeEventListener("abort", end);
}

/** A restart of the operator, or another operator's turn, takes less. */
export const operatorGraceMs = 30_000;

/** `waitUntil`, that ends also once no operator has lived for `graceMs`: the condition is an operator's to bring about. */
export async function waitForOperator(
  isOver: () => boolean,
  options: Parameters<typeof waitUntil>[1] & {
    readonly liveness: () => OperatorLiveness;
    readonly graceMs: number;
    readonly now?: () => number;
  },
): Promise<void> {
  const { liveness, graceMs, watch, now = steadyNow } = options;
  let livedAtMs = now();
  const isLost = (): boolean => {
    const isLive = liveness() === "live";
    if (isLive) livedAtMs = now();
    return !isLive && now() - livedAtMs >= graceMs;
  };
  await waitUntil(() => isOver() || isLost(), { ...options, watch: watchOperator(watch) });
}

/** `watch`, with a call of `onChange` each second too: missing heartbeats of an operator may make a condition true. */
export function watchOperator(watch: (onChange: () => void) => Disposable): (onChange: () => void) => Disposable {
  return (onChange) => {
    const watching = watch(onChange);
    const timer = setInterval(onChange, livenessCheckMs);
    return {
      [Symbol.dispose]: () => {
        clearInterval(timer);
        watching[Symbol.dispose]();
      },
    };
  };
}
