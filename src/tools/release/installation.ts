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

export interface InstalledRelease {
  readonly layout: Layout;
  /** The settings of its services. */
  readonly config: Config;
  readonly updateUrl: string | undefined;
  readonly updateKey: string | undefined;
}

/** The places of this user's installation, and of root's. */
export interface KnownLayouts {
  readonly own: Layout | undefined;
  readonly system: Layout | undefined;
}

function layoutsOf(env: NodeJS.ProcessEnv): KnownLayouts {
  const system = layoutOf({ isRoot: true, home: undefined, xdgConfigHome: undefined, xdgStateHome: undefined });
  return { own: layoutOf(placesOf(env)), system };
}

/**
 * The installation that this program belongs to. Throws CommandError with the next step for a program that was not
 * installed from a release, and without the right to change it; SettingsError.
 */
export async function installedRelease(
  { root, env, version, options }: Asked,
  { own, system }: KnownLayouts = layoutsOf(env),
): Promise<InstalledRelease> {
  if (isClone(root) || !isRelease(root)) throw otherWay({ root, version, options });
  const place = dirname(await realpath(root));
  if (own !== undefined && place === (await realpath(own.prefix).catch(() => undefined))) {
    if (!options.check)
      await access(own.prefix, constants.W_OK).catch(() => {
        throw new CommandError("update.rights", `${own.prefix} cannot be written`, "sudo berth update");
      });
    return await settingsOf(own, env);
  }
  if (system !== undefined && place === system.prefix) {
    if (!options.check)
      throw new CommandError("update.rights", "only root may change this installation", "sudo berth update");
    return await settingsOf(system, env);
  }
  const isInstalled = (await stat(join(place, "installed.json")).catch(() => undefined)) !== undefined;
  if (isInstalled)
    throw new CommandError(
      "update.rights",
      `the installation in ${place} belongs to another user than the one who runs this command`,
      "run it as that user, without sudo",
    );
  throw new CommandError(
    "update.not_installed",
    `this is an unpacked release in ${root}, which is not installed`,
    shellWord(join(root, "install.sh")),
  );
}

/** The settings that only root may give an installation of root's. */
const rootsSettings = [
  { key: "updateKey", name: "update_key", variable: "SVC_UPDATE_KEY", could: "have root run any program" },
  { key: "updateUrl", name: "update_url", variable: "SVC_UPDATE_URL", could: "keep newer releases from root" },
] as const;

/**
 * The settings of the services of these places. Throws CommandError for a key or an address that another user than root
 * could replace in root's installation; SettingsError.
 */
export async function settingsOf(layout: Layout, env: NodeJS.ProcessEnv): Promise<InstalledRelease> {
  const inFile = readEnvironment(await readTextOrNothing(layout.environmentFile));
  const places = { SVC_CONFIG_DIR: layout.configDir, SVC_STATE_DIR: layout.stateDir };
  const { config, origins } = await settingsAsOwner({ ...env, ...inFile, ...places });
  const { updateUrl, updateKey } = config;
  if (layout.isSystem) {
    for (const { key, name, variable, could } of rootsSettings) {
      if (config[key] === undefined || origins[key] !== "file") continue;
      for (const path of [layout.configDir, join(layout.configDir, "berth.toml")])
        if ((await stat(path)).uid !== 0)
          throw new CommandError(
            "update.setting_untrusted",
            `${name} is in berth.toml, and ${path} does not belong to root: its owner could ${could}`,
            `write ${variable} into ${layout.environmentFile} instead`,
          );
    }
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
