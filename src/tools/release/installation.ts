import { constants } from "node:fs";
import { access, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Config } from "../../api/config.ts";
import { CommandError } from "../../cli/client.ts";
import { readTextOrNothing } from "../../lib/read-text.ts";
import { isClone } from "../../program/clone.ts";
import { isRelease } from "../../program/release.ts";
import { placesOf } from "../../program/settings.ts";
import { settingsAsOwner } from "../install/as-owner.ts";
import { readEnvironment } from "../install/environment-file.ts";
import { layoutOf, type Layout } from "../install/layout.ts";

interface Asked {
  /** The directory of this program. */
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  readonly version: string;
  readonly options: { readonly check: boolean; readonly rollback: boolean };
}

export interface Installation {
  readonly layout: Layout;
  /** The settings of its services. */
  readonly config: Config;
  readonly updateUrl: string | undefined;
  readonly updateKey: string | undefined;
}

/**
 * The installation that this program belongs to. Throws CommandError with the next step for a program that was not
 * installed from a release, and without the right to change it; SettingsError.
 */
export async function installationOf({ root, env, version, options }: Asked): Promise<Installation> {
  if (isClone(root) || !isRelease(root)) throw otherWay({ root, version, options });
  const layout = layoutOf(placesOf(env));
  const place = dirname(await realpath(root));
  if (layout === undefined || place !== (await realpath(layout.prefix).catch(() => undefined))) {
    const system = layoutOf({ isRoot: true, home: undefined, xdgConfigHome: undefined, xdgStateHome: undefined });
    if (system === undefined || place !== system.prefix)
      throw new CommandError(
        "update.not_installed",
        `this is an unpacked release in ${root}, which is not installed`,
        shellWord(join(root, "install.sh")),
      );
    if (!options.check)
      throw new CommandError("update.rights", "only root may change this installation", "sudo berth update");
    return await settingsOf(system, env);
  }
  if (!options.check) {
    await access(layout.prefix, constants.W_OK).catch(() => {
      throw new CommandError("update.rights", `${layout.prefix} cannot be written`, "sudo berth update");
    });
  }
  return await settingsOf(layout, env);
}

/**
 * The settings of the services of these places. Throws CommandError for a key that another user than root could replace in
 * root's installation; SettingsError.
 */
export async function settingsOf(layout: Layout, env: NodeJS.ProcessEnv): Promise<Installation> {
  const inFile = readEnvironment(await readTextOrNothing(layout.environmentFile));
  const places = { SVC_CONFIG_DIR: layout.configDir, SVC_STATE_DIR: layout.stateDir };
  const { config, origins } = await settingsAsOwner({ ...env, ...inFile, ...places });
  const { updateUrl, updateKey } = config;
  if (layout.isSystem && updateKey !== undefined && origins["updateKey"] === "file") {
    for (const path of [layout.configDir, join(layout.configDir, "berth.toml")])
      if ((await stat(path)).uid !== 0)
        throw new CommandError(
          "update.key_untrusted",
          `update_key is in berth.toml, and ${path} does not belong to root: its owner could have root run any program`,
          `write SVC_UPDATE_KEY into ${layout.environmentFile} instead`,
        );
  }
  return { layout, config, updateUrl, updateKey };
}

/** Clones and packages of npm are updated by their own tools. */
function otherWay({ root, version, options: { check, rollback } }: Omit<Asked, "env">): CommandError {
  const what = check ? "look for releases" : rollback ? "go back to a release" : "update itself";
  const clone = rollback ? "git checkout COMMIT" : check ? "git fetch && git log ..@{u}" : "git pull --ff-only";
  const done = check ? "" : " && make setup; then start Berth again";
  const pack = rollback ? "npm install -g berth@VERSION" : check ? "npm view berth version" : "npm update -g berth";
  const isFromClone = isClone(root);
  return new CommandError(
    "update.other_way",
    `${version} cannot ${what}: it is ${isFromClone ? "a clone" : "a package of npm"}`,
    isFromClone ? `cd ${shellWord(root)} && ${clone}${done}` : pack,
  );
}

/** The word in a form that a person can paste. */
function shellWord(word: string): string {
  return /^[\w./@:+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
