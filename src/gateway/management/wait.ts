import type { IncomingMessage } from "node:http";
import { findCondition } from "../../api/conditions.ts";
import type { KnownSlot } from "../index.ts";

export interface WaitQuery {
  readonly wait?: "ready" | "settled" | undefined;
  /** Seconds. */
  readonly timeout: number;
}

/** Nothing is going on: it runs, it rests, or it waits for a person or for its next try. */
export function settled({ status }: KnownSlot): boolean {
  if (status === undefined) return false;
  if (status.state === "error") return true;
  const isWorking = findCondition(status.conditions, "Reconciling")?.status === "True";
  return !isWorking && !["pulling", "starting", "warming", "unloading"].includes(status.state);
}

/** Looks at once and whenever `watch` tells of a change. Resolves when it is over, in time or not, or nobody waits. */
export async function waitUntil(
  isOver: () => boolean,
  options: {
    readonly watch: (onChange: () => void) => Disposable;
    readonly patienceMs: number;
    /** On whose behalf: it may have left already. */
    readonly client: Pick<IncomingMessage, "socket">;
    /** Aborted when the gateway stops: whoever waits hears how far it came. */
    readonly stopping: AbortSignal;
  },
): Promise<void> {
  const { watch, patienceMs, client, stopping } = options;
  if (client.socket.destroyed || stopping.aborted || isOver()) return;
  const over = Promise.withResolvers<void>();
  const end = (): void => over.resolve();
  const timer = setTimeout(end, patienceMs);
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
