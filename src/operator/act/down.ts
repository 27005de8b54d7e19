import type { Config } from "../../api/config.ts";
import { openStore } from "../../store/open.ts";
import { openRuntimes } from "../../runtimes/registry.ts";
import { publishedBefore, stopEngines, type StopAllOptions } from "./stopping.ts";

const quiet = { onWarning: () => undefined, onUnknown: () => undefined, onLost: () => undefined };

/**
 * Ends every engine of this instance. Throws LockHeld while an operator runs: it would start them again. Returns the
 * slots that had one.
 */
export async function stopAllEngines(config: Config, options: StopAllOptions): Promise<readonly string[]> {
  const store = openStore(config);
  if (store.isUnused()) return [];
  await using lease = await store.lead(quiet);
  const { instance, publisher, before } = await store.forLeader(lease, quiet);
  await using runtime = await openRuntimes(config, instance, before.slots, { ...options, check: () => lease.check() });
  runtime.limitUnreachableWait(options.listTimeoutMs);
  return await stopEngines(runtime, publisher, publishedBefore(before, runtime).values(), options);
}
