import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chown, rm, rmdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Config } from "../../api/config.ts";
import type { InstalledRecord } from "../../api/installed-record.ts";
import { CommandError } from "../../cli/client.ts";
import { accountOf } from "../../lib/accounts.ts";
import { sha256 } from "../../lib/canonical.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { readText } from "../../lib/read-text.ts";
import { isWithin } from "../../lib/within.ts";
import { caddyfileBefore, removeEdge } from "./access-steps.ts";
import { inOwnersName } from "./as-owner.ts";
import { placesOf } from "../../program/settings.ts";
import { readEnvironment } from "./environment-file.ts";
import { readRecord } from "./installed-record.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { give, givenMark } from "./place-steps.ts";
import { statusOf, targetOf } from "./paths.ts";
import { openServices, type Services } from "./services.ts";
import { serviceUser, thisHost, type Host } from "./install-target.ts";
import { unitNames, unitsOf, wantsLink } from "./units.ts";

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

type Write = (text: string) => void;

interface Parts {
  /** Files that are removed before the program. */
  readonly files: readonly string[];
  /** The other acts of the removal, one line each, as `remove the user berth`. */
  readonly acts: readonly string[];
  readonly stays: readonly string[];
  /** The files that are removed last: the command, and the releases, from one of which this program runs. */
  readonly program: readonly string[];
}

/** Lists the parts of the installation that its removal takes, beside the state. `keepsData`: the file of settings and secrets stays. */
export async function installationParts(
  installation: Installation,
  { keepsData, root }: { readonly keepsData: boolean; readonly root: string },
): Promise<Parts> {
  const { layout, record, services, host } = installation;
  const acts: string[] = [];
  const stays: string[] = [];
  const units = unitFiles(layout);
  const files = [...(await ownUnits(installation, root))];
  for (const file of units)
    if (existsSync(file) && !files.includes(file)) stays.push(`${file}: it was edited by a person`);
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
  { keepsData, root, write }: { readonly keepsData: boolean; readonly root: string; readonly write: Write },
): Promise<void> {
  const { layout, record, services, host } = installation;
  const units = await ownUnits(installation, root);
  for (const file of units) {
    await rm(file);
    write(`removed ${file}\n`);
  }
  // A removal that was killed may have left a link to a unit that is gone.
  for (const name of Object.values(unitNames)) await rm(wantsLink(layout, name), { force: true });
  if (units.length > 0) await services.reload();
  if (record.proxy !== undefined && (await removeEdge(record.proxy.file, record.proxy.sha256))) {
    const { file } = record.proxy;
    write(existsSync(file) ? `put ${file} back as it was\n` : `removed ${file}\n`);
    if (services.kind !== "none") await reloadCaddy(host, existsSync(file));
  }
  if (!keepsData && existsSync(layout.environmentFile)) {
    await rm(layout.environmentFile);
    write(`removed ${layout.environmentFile}\n`);
  }
  await removeEmpty(record.made.paths.filter((path) => !isProgram(layout, path)));
  if (!layout.isSystem) return;
  await removeUser(installation, write);
  await giveToRoot(installation, config);
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

/** The units whose text Berth has written, and the new texts beside those that a person has edited. */
async function ownUnits({ layout, record }: Installation, root: string): Promise<readonly string[]> {
  // An installation that was killed may have written units that the record lacks.
  const shipped = new Map((await unitsOf(root, layout).catch(() => [])).map(({ path, text }) => [path, text]));
  const own: string[] = [];
  for (const file of unitFiles(layout)) {
    const text = await readText(file);
    if (text !== undefined && (sha256(text) === record.units[file] || text === shipped.get(file))) own.push(file);
    if (existsSync(`${file}.new`)) own.push(`${file}.new`);
  }
  return own;
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

async function removeUser({ record, host }: Installation, write: Write): Promise<void> {
  if (record.made.user === true && host.account(serviceUser) !== undefined) {
    await host.run("userdel", [serviceUser]).catch((error: unknown) => {
      const next = `end what runs as ${serviceUser} (ps -u ${serviceUser}), then run the same command again`;
      throw new CommandError("uninstall.failed", `the user cannot be removed: ${errorMessage(error)}`, next);
    });
    write(`removed the user ${serviceUser}\n`);
  }
  // userdel takes the user's own group with it, where the machine's settings say so.
  if (record.made.group === true && host.groupId(serviceUser) !== undefined) await host.run("groupdel", [serviceUser]);
}

/** Gives the files that stay an owner again. The user is gone, and so no process of that user can change the directories meanwhile. */
async function giveToRoot({ layout, record, host }: Installation, config: Config): Promise<void> {
  if (record.made.user !== true || host.account(serviceUser) !== undefined) return;
  const root = { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 };
  for (const path of [config.configDir, config.stateDir, config.modelsDir]) {
    const status = await statusOf(path);
    if (status === undefined || status.uid === root.uid || accountOf(status.uid) !== undefined) continue;
    await give(path, status.uid, root);
    if (path === config.configDir) await writeFile(join(path, givenMark), "");
  }
  if (existsSync(layout.environmentFile)) await chown(layout.environmentFile, root.uid, root.gid);
}
