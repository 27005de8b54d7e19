import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Config } from "../../api/config.ts";
import type { InstalledRecord } from "../../api/installed-record.ts";
import { CommandError } from "../../cli/client.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { readText } from "../../lib/read-text.ts";
import { isWithin } from "../../lib/within.ts";
import { caddyfileBefore, removeEdge } from "./access-steps.ts";
import { inOwnersName } from "./as-owner.ts";
import { placesOf } from "../../program/settings.ts";
import { readEnvironment } from "./environment-file.ts";
import { readRecord } from "./installed-record.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { give } from "./place-steps.ts";
import { statusOf, targetOf } from "./paths.ts";
import { openServices, type Services } from "./services.ts";
import { serviceUser, thisHost, type Host } from "./site.ts";
import { sha256, unitNames } from "./units.ts";

/** An installation from a release, as its record has it. */
export interface Installation {
  readonly layout: Layout;
  readonly record: InstalledRecord;
  readonly services: Services;
  readonly host: Host;
}

/**
 * The installation whose state directory the environment names, with the environment of its services; undefined where there
 * is none. `write`: see `openServices`. Throws CommandError for a record that does not read.
 */
export async function installationOf(
  env: NodeJS.ProcessEnv,
  write: (text: string) => void,
): Promise<(Installation & { readonly env: NodeJS.ProcessEnv }) | undefined> {
  const layout = layoutOf(placesOf(env));
  const record = layout === undefined ? undefined : await readRecord(layout);
  if (layout === undefined || record === undefined) return undefined;
  const places = { SVC_CONFIG_DIR: layout.configDir, SVC_STATE_DIR: layout.stateDir };
  if ((env["SVC_STATE_DIR"] || layout.stateDir) !== layout.stateDir) return undefined;
  const settings = readEnvironment(await readText(layout.environmentFile));
  const services = openServices({ isSystem: layout.isSystem, env, write });
  return { layout, record, services, host: thisHost, env: { ...env, ...settings, ...places } };
}

interface Parts {
  /** Files that are removed before the program. */
  readonly files: readonly string[];
  /** What else will be done, one line each, as `remove the user berth`. */
  readonly acts: readonly string[];
  readonly stays: readonly string[];
  /** What goes last: the command, and the releases with this program. */
  readonly program: readonly string[];
}

/** What the removal of the installation takes, beside the state. `keepsData`: the file of settings and secrets stays. */
export async function installationParts(
  { layout, record, services, host }: Installation,
  { keepsData, root }: { readonly keepsData: boolean; readonly root: string },
): Promise<Parts> {
  const acts: string[] = [];
  const stays: string[] = [];
  const units = unitFiles(layout);
  const files = units.flatMap((file) => [file, `${file}.new`]).filter(existsSync);
  if (services.kind !== "none" && units.some(existsSync)) acts.push("stop and disable the services");
  for (const file of units) if (existsSync(`${file}.d`)) stays.push(`${file}.d: your changes of the unit`);
  if (existsSync(layout.environmentFile)) {
    if (keepsData) stays.push(`${layout.environmentFile}: settings and secrets`);
    else files.push(layout.environmentFile);
  }
  if (record.proxy !== undefined) {
    const { file, sha256: hash } = record.proxy;
    const text = await readText(file);
    if (text !== undefined && sha256(text) !== hash) stays.push(`${file}: it was edited by a person`);
    else if (existsSync(caddyfileBefore(file))) acts.push(`put ${file} back as it was`);
    else if (text !== undefined) acts.push(`remove ${file}`);
    stays.push("Caddy, with its certificates: `apt-get purge caddy`");
  }
  if (record.made.user === true && host.account(serviceUser) !== undefined) acts.push(`remove the user ${serviceUser}`);
  if (!isWithin(root, layout.prefix)) stays.push(`the unpacked release: rm -r ${root}`);
  const isOwnCommand = (await targetOf(layout.command)) === join(layout.current, "bin/berth");
  const program = [...(isOwnCommand ? [layout.command] : []), ...(existsSync(layout.prefix) ? [layout.prefix] : [])];
  return { files, acts, stays, program };
}

/** Ends the services and has none start at boot. The gateways end first, so that no request is left without an operator. */
export async function stopServices({ layout, services }: Installation): Promise<void> {
  if (services.kind === "none") return;
  for (const unit of ["berth-gateway-standby", "berth-gateway", "berth-operator"] as const) {
    if (!existsSync(join(layout.unitsDir, `${unit}.service`))) continue;
    await services.stop(unit);
    if (unit !== "berth-gateway-standby") await services.disable(unit);
  }
}

/**
 * Removes everything but the program: units, proxy configuration, settings, the user. What stays below the directories of
 * `config` is given to root: the number of a removed user may become another user's. Writes a line for each part.
 */
export async function removeInstallation(
  installation: Installation,
  config: Config,
  { keepsData, write }: { readonly keepsData: boolean; readonly write: (text: string) => void },
): Promise<void> {
  const { layout, record, services, host } = installation;
  let hasUnits = false;
  for (const file of unitFiles(layout).flatMap((each) => [each, `${each}.new`])) {
    if (!existsSync(file)) continue;
    await rm(file);
    hasUnits = true;
    write(`removed ${file}\n`);
  }
  // A removal that was killed may have left a link to a unit that is gone.
  for (const link of enabledLinks(layout)) await rm(link, { force: true });
  if (hasUnits) await services.reload();
  if (record.proxy !== undefined && (await removeEdge(record.proxy.file, record.proxy.sha256))) {
    write(`put ${record.proxy.file} back as it was\n`);
    if (services.kind !== "none") await reloadCaddy(host, existsSync(record.proxy.file));
  }
  if (!keepsData && existsSync(layout.environmentFile)) {
    await rm(layout.environmentFile);
    write(`removed ${layout.environmentFile}\n`);
  }
  await removeEmpty(record.made.paths.filter((path) => !isProgram(layout, path)));
  if (layout.isSystem) await removeUser(installation, config, write);
}

/**
 * Removes the command and the releases, by a program that goes on where this one is killed: it runs from there. Then the
 * directories above that the installation has made. Nothing may be imported afterwards.
 */
export async function removeProgram({ layout, record }: Installation, paths: readonly string[]): Promise<void> {
  const child = spawn("rm", ["-rf", "--", ...paths], { detached: true, cwd: "/", stdio: "ignore" });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0)
    throw new CommandError(
      "uninstall.failed",
      `not all of ${paths.join(" ")} could be removed`,
      `rm -rf ${paths.join(" ")}`,
    );
  await removeEmpty(record.made.paths.filter((path) => isProgram(layout, path)));
}

/** A directory that holds the program or its command: it is empty only when they are gone. */
function isProgram({ prefix, command }: Layout, path: string): boolean {
  return isWithin(prefix, path) || isWithin(command, path);
}

function unitFiles({ unitsDir }: Layout): readonly string[] {
  return Object.values(unitNames).map((name) => join(unitsDir, name));
}

function enabledLinks({ unitsDir, isSystem }: Layout): readonly string[] {
  const wants = isSystem ? "multi-user.target.wants" : "default.target.wants";
  return Object.values(unitNames).map((name) => join(unitsDir, wants, name));
}

/** The last one first: it was made in the one before. */
async function removeEmpty(paths: readonly string[]): Promise<void> {
  for (const path of paths.toReversed()) {
    if ((await statusOf(path))?.isDirectory() !== true) continue;
    try {
      await inOwnersName(dirname(path), async () => await rmdir(path));
    } catch (error) {
      if (!["ENOTEMPTY", "ENOENT", "EACCES"].includes(errorCode(error) ?? "")) throw error;
    }
  }
}

async function reloadCaddy(host: Host, hasFile: boolean): Promise<void> {
  // Caddy goes on with what it has where it cannot be reloaded: it is not Berth's.
  await host.run("systemctl", [hasFile ? "reload-or-restart" : "stop", "caddy.service"]).catch(() => undefined);
}

async function removeUser(
  { record, host }: Installation,
  config: Config,
  write: (text: string) => void,
): Promise<void> {
  const account = host.account(serviceUser);
  if (record.made.user === true && account !== undefined) {
    for (const path of [config.configDir, config.stateDir, config.modelsDir])
      if ((await statusOf(path))?.uid === account.uid)
        await give(path, { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 });
    await host.run("userdel", [serviceUser]).catch((error: unknown) => {
      const next = `end what runs as ${serviceUser} (ps -u ${serviceUser}), then run the same command again`;
      throw new CommandError("uninstall.failed", `the user cannot be removed: ${errorMessage(error)}`, next);
    });
    write(`removed the user ${serviceUser}\n`);
  }
  // userdel takes the user's own group with it, where the machine's settings say so.
  if (record.made.group === true && host.groupId(serviceUser) !== undefined) await host.run("groupdel", [serviceUser]);
}
