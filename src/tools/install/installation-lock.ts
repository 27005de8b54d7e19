import { mkdir } from "node:fs/promises";
import { CommandError } from "../../cli/client.ts";
import { updatePlaces } from "../release/places.ts";
import type { Layout } from "./layout.ts";

/**
 * The lock of updates: one process at a time changes an installation. It ends with its process, in whatever way. Throws
 * CommandError where another process holds it.
 */
export async function lockInstallation(layout: Pick<Layout, "prefix">): Promise<AsyncDisposable> {
  const { acquireLock } = await import("../../store/state/lock.ts");
  await mkdir(layout.prefix, { recursive: true });
  try {
    return await acquireLock(updatePlaces(layout).lock);
  } catch (error) {
    if (!(error instanceof Error && error.name === "LockHeld" && "pid" in error)) throw error;
    const message = `another installation, update or removal runs (process ${String(error.pid)})`;
    throw new CommandError("install.running", message, "wait for its end, then run the same command again");
  }
}
