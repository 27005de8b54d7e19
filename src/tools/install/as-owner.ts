import { rm } from "node:fs/promises";
import type { Config } from "../../api/config.ts";
import { actAs, ownerToActAs, type Owner } from "../../program/owner.ts";
import { readSettings, type Settings } from "../../program/settings.ts";

/** The settings, read as the owner of the directories; `hasOwner`: that is another user than root. Throws SettingsError. */
export async function settingsAsOwner(env: NodeJS.ProcessEnv): Promise<{
  config: Config;
  origins: Settings["origins"];
  hasOwner: boolean;
}> {
  using stack = new DisposableStack();
  let hasOwner = false;
  const { config, origins } = await readSettings(env, {
    takeOwner: async (owner) => {
      hasOwner = true;
      stack.use(await actAs(owner));
    },
  });
  return { config, origins, hasOwner };
}

/** Root's files are written as root, the service's as the service's user: a link there leads to no file of root's. */
export async function inOwnersName<T>(directory: string, act: () => Promise<T>): Promise<T> {
  return await inNameOf(await ownerToActAs(directory), act);
}

/** The same for a known owner; undefined, and any process but root's: as this process. */
export async function inNameOf<T>(owner: Owner | undefined, act: () => Promise<T>): Promise<T> {
  using stack = new DisposableStack();
  if (owner !== undefined && owner.uid !== 0 && process.geteuid?.() === 0) stack.use(await actAs(owner));
  return await act();
}

/** Removes it, as the owner of its directory. */
export async function removeInOwnersName(directory: string, path: string): Promise<void> {
  await inOwnersName(directory, async () => await rm(path, { recursive: true, force: true }));
}
