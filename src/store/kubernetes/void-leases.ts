import { isStatus } from "../../kubernetes/api-error.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import type { ListWatch } from "../../kubernetes/list-watch.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { leasesPath } from "./names.ts";

export interface VoidLeasesOptions {
  readonly client: ApiClient;
  /** Of the gateways' Leases. */
  readonly leases: ListWatch;
  /** A Lease that has not changed for this long is nobody's any more. */
  readonly voidMs: number;
  readonly onError: (error: unknown) => void;
}

/**
 * Deletes the Leases of gateways that were killed, while this runs: nobody else does, and each start of a gateway makes
 * another one. Judged by this process's clock, from the watch alone; a Lease that is renewed meanwhile stays.
 */
export function collectVoidLeases({ client, leases, voidMs, onError }: VoidLeasesOptions): Disposable {
  const seen = new Map<string, { readonly version: string; readonly sinceMs: number }>();
  const collect = async (): Promise<void> => {
    // A watch that is not open shows old versions.
    if (!leases.isConnected) return seen.clear();
    const found = leases.values().map(({ meta }) => meta);
    const names = new Set(found.map(({ name }) => name));
    for (const name of seen.keys()) if (!names.has(name)) seen.delete(name);
    for (const { name, uid, resourceVersion: version } of found) {
      const known = seen.get(name);
      if (known?.version !== version) {
        seen.set(name, { version, sinceMs: steadyNow() });
        continue;
      }
      if (steadyNow() - known.sinceMs < voidMs) continue;
      const body = { preconditions: { uid, resourceVersion: version } };
      await client.request("DELETE", `${leasesPath(client.namespace)}/${name}`, { body }).catch((error: unknown) => {
        // 404: the Lease is gone. 409: its gateway has renewed it meanwhile, so it lives.
        if (!isStatus(error, 404, 409)) throw error;
      });
    }
  };
  const timer = setInterval(() => void collect().catch(onError), voidMs / 4);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
