import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../api/config.ts";
import { bootId } from "../lib/boot-id.ts";
import { acquireLock } from "../store/lock.ts";
import { withReserve } from "../store/reserve.ts";
import { clearOddFiles } from "../store/odd-files.ts";
import { openPublisher } from "../store/published.ts";
import { instanceId } from "./main.ts";
import { openRuntimes } from "./runtimes.ts";
import { readPublished, stopEngines, type Haste } from "./stopping.ts";

/**
 * Ends every engine of this instance. Throws LockHeld while an operator runs: it would start them again.
 * Returns the slots that had one.
 */
export async function stopAllEngines(config: Config, options: Haste): Promise<readonly string[]> {
  // What never ran here has no engines, and no directory to lock.
  if (!existsSync(config.stateDir)) return [];
  await clearOddFiles(config.stateDir, () => undefined);
  const lockPath = join(config.stateDir, "operator.lock");
  await using _lock = await withReserve(config.stateDir, () => acquireLock(lockPath));
  const publisher = await openPublisher(config.stateDir);
  const published = await readPublished(publisher, config.stateDir, bootId());
  const instance = await instanceId(config.stateDir);
  await using runtime = await openRuntimes(config, instance, published.values(), options);
  runtime.hurry(options.lookMs);
  return await stopEngines(runtime, publisher, published.values(), options);
}
