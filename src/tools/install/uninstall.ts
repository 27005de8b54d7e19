import { spawn } from "node:child_process";
import { lstat, readdir, rmdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Config } from "../../api/config.ts";
import { CommandError } from "../../cli/client.ts";
import { bytes } from "../../cli/output.ts";
import { errorCode } from "../../lib/error-code.ts";
import { isClone } from "../../program/clone.ts";
import { isRelease } from "../../program/release.ts";
import { endEngines } from "../down.ts";
import {
  installationParts,
  removeInstallation,
  removeProgram,
  stopServices,
  type Installation,
} from "./remove-installation.ts";
import { lockInstallation } from "./installation-lock.ts";
import { statusOf } from "./paths.ts";
import { givenMark } from "./place-steps.ts";
import { inOwnersName, removeInOwnersName, settingsAsOwner } from "./as-owner.ts";

export interface UninstallOptions {
  readonly env: NodeJS.ProcessEnv;
  /** The directory of this program. */
  readonly root: string;
  /** False: only lists. */
  readonly isConfirmed: boolean;
  /** Tokens, settings, conversations, backups and found digests stay. */
  readonly keepsData: boolean;
  /**
   * The model files below the state directory are removed too: they may be a person's own, and take days to fetch
   * again.
   */
  readonly removesModels: boolean;
  readonly removesConfig: boolean;
  /** In a clone: the files of `make setup` are removed too. */
  readonly isDev: boolean;
  /** The installation from a release whose state this is. */
  readonly installation?: Installation | undefined;
  readonly write: (text: string) => void;
}

/** The targets of `berth uninstall`, and the files that it leaves to their owner. */
interface Removal {
  readonly goes: readonly string[];
  /** Directories that are removed when they are empty. */
  readonly emptied: readonly string[];
  readonly stays: readonly string[];
}

/** The parts that Berth makes in its state directory (docs/operations.md); other files there are not its own. */
export const stateParts: readonly string[] = [
  "aside",
  "contexts",
  "demand",
  "discovered",
  "engines",
  "fit.json",
  "format.json",
  "gateways",
  "groups",
  "hardware",
  "images",
  "installed",
  "instance",
  "loans",
  "logs",
  "model-answers",
  "model-tasks",
  "operator.json",
  "operator.lock",
  "probe-requests",
  "processes",
  "pull-requests",
  "pulls",
  "registry.json",
  "requests",
  "run.json",
  "slots",
  "spool",
  "upstreams",
];
export const dataParts: readonly string[] = ["auth", "backups", "conversations", "engines.lock.yaml"];
export const modelsPart = "models";
const configParts = ["slots", "models", "upstreams", "groups", "berth.toml", givenMark];
const cloneParts = ["node_modules", "engines/node_modules", ".cache"];

/** After this time a gateway that was stopped counts as gone, however it ended. */
const gatewayGoneMs = 15_000;
const pollMs = 200;

/**
 * `berth uninstall`: ends every engine and removes the state directory's parts, and the installation; the configuration only
 * with its option. Without confirmation it lists the targets. A removal that was killed is completed by the next one. Throws
 * CommandError where an operator or a gateway runs that is not the installation's.
 */
export async function uninstall(options: UninstallOptions): Promise<void> {
  const { write, isConfirmed, installation } = options;
  const { config, hasOwner } = await settingsAsOwner(options.env);
  const { goes, stays } = await removalOf(config, options);
  const parts = installation === undefined ? undefined : await installationParts(installation, options);
  const left = [...stays, ...(parts?.stays ?? [])];
  if (!isConfirmed) {
    for (const act of ["stop every engine of this instance", ...(parts?.acts ?? [])]) write(`would ${act}\n`);
    for (const path of [...goes, ...(parts?.files ?? []), ...(parts?.program ?? [])])
      write(`would remove ${path} (${bytes(await sizeOf(path))})\n`);
    for (const line of left) write(`would leave ${line}\n`);
    write("nothing has been done; --yes does it\n");
    return;
  }
  await using _lock = installation === undefined ? undefined : await lockInstallation(installation.layout);
  if (installation !== undefined) await stopServices(installation);
  const areStopped = installation !== undefined && installation.services.kind !== "none";
  await refuseGateway(config, areStopped ? gatewayGoneMs : 0);
  // A state directory without an operator's files has no engines; ending them would create such files.
  if (!isUsed(config.stateDir)) write("no engine runs\n");
  else if (hasOwner) write(await endInOwnersName(options.env, installation?.layout.current));
  else {
    const slots = await endEngines(config);
    write(slots.length === 0 ? "no engine runs\n" : `stopped ${slots.join(", ")}\n`);
  }
  // Ending engines leaves traces, so the targets are listed again.
  const { goes: all, emptied } = await removalOf(config, options);
  for (const path of all) {
    await removeInOwnersName(dirname(path), path);
    write(`removed ${path}\n`);
  }
  for (const path of emptied) {
    const names = await namesIn(path);
    if (names === undefined) continue;
    if (names.length === 0) {
      await inOwnersName(dirname(path), async () => await rmdir(path));
      write(`removed ${path}\n`);
    } else write(`left ${path}: ${names.join(", ")}\n`);
  }
  if (installation !== undefined) await removeInstallation(installation, config, options);
  for (const line of left) write(`left ${line}\n`);
  if (installation === undefined || parts === undefined) return;
  await removeProgram(installation, parts.program);
  for (const path of parts.program) write(`removed ${path}\n`);
}

async function refuseGateway(config: Config, waitMs: number): Promise<void> {
  const { openStore } = await import("../../store/open.ts");
  const store = openStore(config);
  for (const end = performance.now() + waitMs; (await store.hasLiveGateway()) === true; await delay(pollMs))
    if (performance.now() >= end)
      throw new CommandError(
        "gateway.running",
        `a gateway runs with ${config.stateDir}`,
        "stop it, or `berth up`, first",
      );
}

/**
 * `berth down` in another process, which becomes that user for good: this process has root's files to remove as well.
 */
async function endInOwnersName(env: NodeJS.ProcessEnv, installed: string | undefined): Promise<string> {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const entry = fileURLToPath(new URL(`../../main/berth.${extension}`, import.meta.url));
  // That user may read what is installed, and perhaps not what root has unpacked.
  const command = installed === undefined ? undefined : join(installed, "bin/berth");
  const [program, words] =
    command !== undefined && existsSync(command)
      ? [command, ["down"]]
      : [process.execPath, [...process.execArgv, entry, "down"]];
  const child = spawn(program, words, { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  let failure = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (failure += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code === 0) return said;
  const [first = "", ...next] = failure.trimEnd().split("\n");
  const [, name = "down.failed", message = first] = /^([a-z._]+): (.*)$/.exec(first) ?? [];
  throw new CommandError(name, message, next.length === 0 ? undefined : next.join("\n"));
}

/** The size of the files below, links not followed; an unreadable file counts as 0. */
async function sizeOf(path: string): Promise<number> {
  const status = await lstat(path).catch(() => undefined);
  if (status === undefined || !status.isDirectory()) return status?.size ?? 0;
  let sum = 0;
  for (const name of await readdir(path).catch(() => [])) sum += await sizeOf(join(path, name));
  return sum;
}

const isThere = async (path: string): Promise<boolean> => (await statusOf(path)) !== undefined;
const isUsed = (stateDir: string): boolean => existsSync(join(stateDir, "instance"));

async function removalOf(config: Config, options: UninstallOptions): Promise<Removal> {
  const { stateDir, configDir, modelsDir } = config;
  const { keepsData, removesConfig, removesModels, isDev, root, env, installation } = options;
  if (stateDir === "/" || stateDir === env["HOME"])
    throw new CommandError("state.shared", `${stateDir} is not Berth's alone`, "remove its parts there by hand");
  const goes: string[] = [];
  const emptied: string[] = [];
  const stays: string[] = [];
  const take = async (directory: string, parts: readonly string[]): Promise<void> => {
    for (const part of parts) if (await isThere(join(directory, part))) goes.push(join(directory, part));
  };
  if (isUsed(stateDir) || (await isThere(join(stateDir, "auth"))) || installation !== undefined) {
    const data = keepsData ? [] : dataParts;
    await take(stateDir, [...stateParts, ...data, ...(removesModels ? [modelsPart] : [])].toSorted());
    emptied.push(stateDir);
  }
  const areBelow = relative(stateDir, modelsDir) === modelsPart;
  const hasNoModels = areBelow && (await isThere(modelsDir)) && !(await hasFiles(modelsDir));
  if (hasNoModels && !removesModels) goes.push(modelsDir);
  else if (!(areBelow && removesModels) && (await isThere(modelsDir))) {
    const size = bytes(await sizeOf(modelsDir));
    const next = areBelow ? "; --models removes them" : "";
    stays.push(`${modelsDir} (${size}): models, and any other files there${next}`);
  }
  if (removesConfig) {
    if (config.readOnly || (await isThere(join(configDir, ".berth-read-only"))))
      throw new CommandError("config.read_only", `${configDir} belongs to somebody else`, "leave out --config");
    await take(configDir, configParts);
    emptied.push(configDir);
  } else if (await hasFiles(configDir)) stays.push(`${configDir}: your manifests; --config removes them`);
  const isOwnClone = isClone(root);
  if (isDev && !isOwnClone)
    throw new CommandError("clone.none", `${root} is no clone: there is no \`make setup\``, "leave out --dev");
  // Last, since this program runs from there.
  if (isDev) await take(root, cloneParts);
  if (!keepsData) {
    const { credentialsFile } = await import("../../cli/credentials.ts");
    const credentials = credentialsFile(env);
    if (credentials !== undefined && (await isThere(credentials))) {
      goes.push(credentials);
      emptied.push(dirname(credentials));
    }
  }
  if (installation === undefined)
    stays.push(
      isOwnClone
        ? `the program, a clone: rm -r ${root}`
        : isRelease(root)
          ? `the program, an unpacked release: rm -r ${root}`
          : "the program, a package: npm uninstall -g berth",
    );
  stays.push("images that containers ran from: `docker image ls` lists them");
  return { goes, emptied, stays };
}

async function namesIn(path: string): Promise<readonly string[] | undefined> {
  try {
    return (await readdir(path)).toSorted();
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Whether there is anything below but empty directories. */
async function hasFiles(path: string): Promise<boolean> {
  const status = await lstat(path).catch(() => undefined);
  if (status?.isDirectory() !== true) return status !== undefined;
  for (const name of (await namesIn(path)) ?? []) if (await hasFiles(join(path, name))) return true;
  return false;
}
