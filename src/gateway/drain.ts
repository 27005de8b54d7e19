import type { ServerResponse } from "node:http";
import type { Logger } from "pino";
import { steadyNow } from "../lib/steady-clock.ts";
import type { App } from "./app.ts";
import { stopping, type ModelProxy } from "./proxy/handle.ts";
import type { Listeners } from "./http/listeners.ts";
import type { CacheSync } from "./routing/cache-sync.ts";

export interface Drained {
  readonly proxy: Pick<ModelProxy, "underWay" | "refuseAll">;
  readonly cacheSync: Pick<CacheSync, "close">;
  readonly app: Pick<App, "fastify" | "server">;
  readonly listeners: Pick<Listeners, "report" | "release" | "close">;
  /** Aborted at the end of the time: waits and event streams of `/api` end. */
  readonly deadline: AbortController;
  readonly log: Pick<Logger, "warn">;
}

export interface DrainTime {
  readonly drainSeconds: number;
  /** Ends the drain early. */
  readonly endNow?: AbortSignal | undefined;
  /**
   * Another gateway listens on the port: requests on open connections are served, and their clients are asked to connect
   * again.
   */
  readonly isRelieved?: boolean;
}

const pollMs = 20;
/**
 * A client may send a request in the moment in which its idle connection is closed. Connections that have been idle for
 * so long seldom get one just then.
 */
const idleMs = 2000;
/** How long the gateway's last answers may take to be sent. */
const lastAnswersMs = 1000;

/**
 * Lets requests end within the time. The remaining ones get an error: no client gets an empty answer. Then every
 * connection is closed.
 */
export async function drain(drained: Drained, time: DrainTime): Promise<void> {
  const { proxy, cacheSync, app, listeners, deadline, log } = drained;
  const { drainSeconds, endNow, isRelieved = false } = time;
  let lastRequest = -Infinity;
  if (isRelieved) {
    lastRequest = steadyNow();
    app.server.prependListener("request", (_request, response: ServerResponse) => {
      lastRequest = steadyNow();
      // The answer's header tells the client to close the connection.
      response.shouldKeepAlive = false;
    });
    await listeners.release();
  } else {
    listeners.report();
    cacheSync.close(stopping());
  }
  const isQuiet = (): boolean => proxy.underWay === 0 && steadyNow() - lastRequest >= idleMs;
  // Idle connections stay until the end too: Node counts a connection as idle while its last answer is still being
  // sent.
  await until(() => isQuiet() || endNow?.aborted === true, drainSeconds * 1000);
  deadline.abort();
  cacheSync.close(stopping());
  const count = proxy.refuseAll(stopping());
  const requests = count === 1 ? "1 request" : `${count} requests`;
  if (count > 0) log.warn(`${requests} did not end within the time to stop: an error ended them`);
  await until(() => proxy.underWay === 0, lastAnswersMs);
  // Answers of this turn are sent at its end.
  await new Promise((resolve) => setImmediate(resolve));
  const cut = setTimeout(() => app.server.closeAllConnections(), lastAnswersMs);
  await Promise.all([app.fastify.close(), listeners.close()]);
  clearTimeout(cut);
}

/** Resolves when the condition holds, or after `limitMs` of a monotonic clock. */
async function until(isSo: () => boolean, limitMs: number): Promise<void> {
  const end = steadyNow() + limitMs;
  while (!isSo() && steadyNow() < end) await new Promise((resolve) => setTimeout(resolve, pollMs));
}
