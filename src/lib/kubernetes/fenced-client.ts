import type { ApiClient } from "./client.ts";
import { usualTimes } from "./lease-election.ts";

/**
 * A write that is sent while its sender leads is answered, or given up, before another process may lead. One that was given
 * up may still be carried out.
 */
const writeLimitMs = usualTimes.durationMs - usualTimes.deadlineMs;

/**
 * A client that writes only while `check` does not throw: it is called right before each write is sent, and not where the
 * caller began. Reads are not checked. Disposing ends `client`.
 */
export function fencedClient(client: ApiClient, check: () => void): ApiClient {
  return {
    namespace: client.namespace,
    server: client.server,
    lines: (path, call) => client.lines(path, call),
    async request(method, path, call = {}) {
      if (method === "GET") return await client.request(method, path, call);
      const timeoutMs = Math.min(call.timeoutMs ?? writeLimitMs, writeLimitMs);
      return await client.request(method, path, { ...call, timeoutMs, check });
    },
    [Symbol.dispose]: () => client[Symbol.dispose](),
  };
}
