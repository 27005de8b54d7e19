import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { removeLeftovers } from "../../lib/atomic-file.ts";
import { sets } from "../sets.ts";

/** Directories of the state whose files no other part clears. */
const directories = [...Object.values(sets).map(({ set }) => set), "requests/removals"];

/**
 * Removes temporary files that killed operators and gateways have left, among manifests too. Never rejects: they take
 * space alone.
 */
export async function clearLeftovers(stateDir: string, manifestDirs: readonly string[]): Promise<void> {
  const contexts = join(stateDir, "contexts");
  const slots = await readdir(contexts).catch(() => []);
  const own = [...directories.map((name) => join(stateDir, name)), ...slots.map((slot) => join(contexts, slot))];
  for (const directory of own) await removeLeftovers(directory).catch(() => undefined);
  for (const directory of manifestDirs) await removeLeftovers(directory, { isShared: true }).catch(() => undefined);
}
