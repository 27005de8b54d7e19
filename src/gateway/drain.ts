import type { Logger } from "pino";
import { steadyNow } from "../lib/steady-clock.ts";
import type { App } from "./app.ts";
import { stopping, type Dispatcher } from "./dispatch.ts";
import type { FirstLook } from "./first-look.ts";

export interface Drained {
  readonly dispatcher: Pick<Dispatcher, "underWay" | "refuseAll">;
  readonly firstLook: Pick<FirstLook, "close">;
  readonly app: Pick<App, "fastify" | "server">;
  /** Aborted when the time is over: waits and event streams of `/api` end. */
  readonly deadline: AbortController;
  readonly log: Pick<Logger, "warn">;
}

export interface DrainTime {
  readonly drainSeconds: number;
  /** Ends the drain before its time. */
  readonly hurry?: AbortSignal | undefined;
}

const lookMs = 20;
/** How long the last words of the gateway may take to leave. */
const lastWordsMs = 1000;

/**
 * Lets requests end for as long as there is time. Those that are left are told so: nobody gets an empty answer. Then
 * every connection is closed.
 */
export async function drain({ dispatcher, firstLook, app, deadline, log }: Drained, time: DrainTime): Promise<void> {
  const { drainSeconds, hurry } = time;
  firstLook.close(stopping());
  const isQuiet = (): boolean => dispatcher.underWay === 0;
  // Idle connections stay until the end too: Node counts those as idle whose last answer it has not sent whole.
  await until(() => isQuiet() || hurry?.aborted === true, drainSeconds * 1000);
  deadline.abort();
  const count = dispatcher.refuseAll(stopping());
  if (count > 0) log.warn(`${count} requests did not end within the time to stop, and were told to try again`);
  await until(isQuiet, lastWordsMs);
  // What was answered in this turn goes out at its end.
  await new Promise((resolve) => setImmediate(resolve));
  const cut = setTimeout(() => app.server.closeAllConnections(), lastWordsMs);
  await app.fastify.close();
  clearTimeout(cut);
}

/** Resolves when it is so, or after `limitMs` of a clock that nobody sets. */
async function until(isSo: () => boolean, limitMs: number): Promise<void> {
  const end = steadyNow() + limitMs;
  while (!isSo() && steadyNow() < end) await new Promise((resolve) => setTimeout(resolve, lookMs));
}
