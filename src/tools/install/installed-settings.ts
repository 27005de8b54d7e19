import { realpath } from "node:fs/promises";
import { dirname } from "node:path";
import { readTextOrNothing } from "../../lib/read-text.ts";
import { placesOf } from "../../program/settings.ts";
import { readEnvironment } from "./environment-file.ts";
import { layoutOf, type Layout } from "./layout.ts";

/**
 * Puts the settings of the installation that the release in `root` belongs to below the shell's own variables: its commands
 * then mean its services. Does nothing for a release that is only unpacked, and for a user who may not read the file.
 */
export async function takeInstalledSettings(root: string, env: NodeJS.ProcessEnv): Promise<void> {
  const place = dirname(await realpath(root));
  const system = layoutOf({ isRoot: true, home: undefined, xdgConfigHome: undefined, xdgStateHome: undefined });
  for (const layout of [layoutOf(placesOf(env)), system])
    if (layout !== undefined && place === (await realpath(layout.prefix).catch(() => undefined)))
      return await addSettings(layout, env);
}

async function addSettings({ environmentFile, configDir, stateDir, isSystem }: Layout, env: NodeJS.ProcessEnv) {
  const settings = readEnvironment(await readTextOrNothing(environmentFile));
  if (Object.keys(settings).length === 0) return;
  // As the units have it: for the services' user these are not its own directories.
  const places = isSystem && !placesOf(env).isRoot ? { SVC_CONFIG_DIR: configDir, SVC_STATE_DIR: stateDir } : {};
  for (const [name, value] of Object.entries({ ...settings, ...places })) env[name] ??= value;
}
