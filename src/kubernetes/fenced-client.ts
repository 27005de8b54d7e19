import type { ApiClient } from "./client.ts";

/** How soon a write on its way is given up: much less than the time between the end of one leadership and the next. */
const recheckMs = 250;

/**
 * A client that writes only while `check` does not throw: it is called right before each write is sent, not where the
 * caller began, and again and again until the answer is there. Where it throws, the write is given up with its error; the
 * API server may still carry it out. Reads are not checked. Disposing ends `client`.
 */
export function fencedClient(client: ApiClient, check: () => void): ApiClient {
  return {
    namespace: client.namespace,
    server: client.server,
    lines: (path, call) => client.lines(path, call),
    async request(method, path, call = {}) {
      if (method === "GET") return await client.request(method, path, call);
      const lost = new AbortController();
      const recheck = (): void => {
        try {
          check();
        } catch (error) {
          lost.abort(error);
        }
      };
      const timer = setInterval(recheck, recheckMs);
      const signal = call.signal === undefined ? lost.signal : AbortSignal.any([call.signal, lost.signal]);
      try {
        return await client.request(method, path, { ...call, signal, check });
      } catch (error) {
        throw lost.signal.aborted ? lost.signal.reason : error;
      } finally {
        clearInterval(timer);
      }
    },
    [Symbol.dispose]: () => client[Symbol.dispose](),
  };
}
