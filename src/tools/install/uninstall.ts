import { spawn } from "node:child_process";
import { lstat, readdir, rm, rmdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Config } from "../../api/config.ts";
import { CommandError } from "../../cli/client.ts";
import { bytes } from "../../cli/output.ts";
import { errorCode } from "../../lib/error-code.ts";
import { isClone } from "../../program/clone.ts";
import { endEngines } from "../down.ts";
import { actAs, ownerToActAs } from "../../program/owner.ts";
import { readSettings } from "../../program/settings.ts";

export interface UninstallOptions {
  readonly env: NodeJS.ProcessEnv;
  /** The directory of this program. */
  readonly root: string;
  /** False: only lists. */
  readonly isConfirmed: boolean;
  /** Tokens and found digests stay. */
  readonly keepsData: boolean;
  /**
   * The model files below the state directory are removed too: they may be a person's own, and take days to fetch
   * again.
   */
  readonly removesModels: boolean;
  readonly removesConfig: boolean;
  /** In a clone: the files of `make setup` are removed too. */
  readonly isDev: boolean;
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
  "groups",
  "hardware",
  "images",
  "installed",
  "instance",
  "logs",
  "model-tasks",
  "operator.json",
  "operator.lock",
  "processes",
  "pulls",
  "registry.json",
  "requests",
  "reserve",
  "run.json",
  "slots",
  "spool",
  "upstreams",
];
export const dataParts: readonly string[] = ["auth", "backups", "conversations", "engines.lock.yaml"];
export const modelsPart = "models";
const configParts = ["slots", "models", "upstreams", "groups", "berth.toml"];
const cloneParts = ["node_modules", "engines/node_modules", ".cache"];

/**
 * `berth uninstall`: ends every engine and removes the state directory's parts; the configuration only with its option.
 * Without confirmation it lists the targets. Throws CommandError where an operator or a gateway runs.
 */
export async function uninstall(options: UninstallOptions): Promise<void> {
  const { write, isConfirmed } = options;
  const { config, hasOwner } = await settingsAsOwner(options.env);
  const { goes, stays } = await removalOf(config, options);
  if (!isConfirmed) {
    write("would stop every engine of this instance\n");
    for (const path of goes) write(`would remove ${path} (${bytes(await sizeOf(path))})\n`);
    for (const line of stays) write(`would leave ${line}\n`);
    write("nothing has been done; --yes does it\n");
    return;
  }
  const { openStore } = await import("../../store/open.ts");
  if ((await openStore(config).hasLiveGateway()) === true) {
    throw new CommandError(
      "gateway.running",
      `a gateway runs with ${config.stateDir}`,
      "stop it, or `berth up`, first",
    );
  }
  // A state directory without an operator's files has no engines; ending them would create such files.
  if (!isUsed(config.stateDir)) write("no engine runs\n");
  else if (hasOwner) write(await endInOwnersName(options.env));
  else {
    const slots = await endEngines(config);
    write(slots.length === 0 ? "no engine runs\n" : `stopped ${slots.join(", ")}\n`);
  }
  // Ending engines leaves traces, so the targets are listed again.
  const { goes: all, emptied } = await removalOf(config, options);
  for (const path of all) {
    await inOwnersName(dirname(path), async () => await rm(path, { recursive: true, force: true }));
    write(`removed ${path}\n`);
  }
  for (const path of emptied) {
    const left = await namesIn(path);
    if (left === undefined) continue;
    if (left.length === 0) {
      await inOwnersName(dirname(path), async () => await rmdir(path));
      write(`removed ${path}\n`);
    } else write(`left ${path}: ${left.join(", ")}\n`);
  }
  for (const line of stays) write(`left ${line}\n`);
}

async function settingsAsOwner(env: NodeJS.ProcessEnv): Promise<{ config: Config; hasOwner: boolean }> {
  using stack = new DisposableStack();
  let hasOwner = false;
  const { config } = await readSettings(env, {
    takeOwner: async (owner) => {
      hasOwner = true;
      stack.use(await actAs(owner));
    },
  });
  return { config, hasOwner };
}

/** Root's files are removed as root, the service's as the service's user: a link there leads to no file of root's. */
async function inOwnersName(directory: string, act: () => Promise<void>): Promise<void> {
  const owner = await ownerToActAs(directory);
  using stack = new DisposableStack();
  if (owner !== undefined) stack.use(await actAs(owner));
  await act();
}

/**
 * `berth down` in another process, which becomes that user for good: this process has root's files to remove as well.
 */
async function endInOwnersName(env: NodeJS.ProcessEnv): Promise<string> {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const entry = fileURLToPath(new URL(`../../main/berth.${extension}`, import.meta.url));
  const child = spawn(process.execPath, [...process.execArgv, entry, "down"], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
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

const isUsed = (stateDir: string): boolean => existsSync(join(stateDir, "instance"));

async function removalOf(config: Config, options: UninstallOptions): Promise<Removal> {
  const { stateDir, configDir, modelsDir } = config;
  const { keepsData, removesConfig, removesModels, isDev, root, env } = options;
  if (stateDir === "/" || stateDir === env["HOME"])
    throw new CommandError("state.shared", `${stateDir} is not Berth's alone`, "remove its parts there by hand");
  const goes: string[] = [];
  const emptied: string[] = [];
  const stays: string[] = [];
  const take = async (directory: string, parts: readonly string[]): Promise<void> => {
    for (const part of parts) if (await isThere(join(directory, part))) goes.push(join(directory, part));
  };
  if (isUsed(stateDir) || (await isThere(join(stateDir, "auth")))) {
    const data = keepsData ? [] : dataParts;
    await take(stateDir, [...stateParts, ...data, ...(removesModels ? [modelsPart] : [])].toSorted());
    emptied.push(stateDir);
  }
  const areBelow = relative(stateDir, modelsDir) === modelsPart;
  if (!(areBelow && removesModels) && (await isThere(modelsDir))) {
    const size = bytes(await sizeOf(modelsDir));
    const next = areBelow ? "; --models removes them" : "";
    stays.push(`${modelsDir} (${size}): models, and any other files there${next}`);
  }
  if (removesConfig) {
    if (config.readOnly || (await isThere(join(configDir, ".berth-read-only"))))
      throw new CommandError("config.read_only", `${configDir} belongs to somebody else`, "leave out --config");
    await take(configDir, configParts);
    emptied.push(configDir);
  } else if (await isThere(configDir)) stays.push(`${configDir}: your manifests; --config removes them`);
  const isOwnClone = isClone(root);
  if (isDev && !isOwnClone)
    throw new CommandError("clone.none", `${root} is no clone: there is no \`make setup\``, "leave out --dev");
  // Last, since this program runs from there.
  if (isDev) await take(root, cloneParts);
  stays.push(
    isOwnClone ? `the program, a clone: rm -r ${root}` : "the program, a package: npm uninstall -g berth",
    "images that containers ran from: `docker image ls` lists them",
  );
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

async function isThere(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  );
}
