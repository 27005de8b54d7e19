import { lstat, readdir, rm, rmdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import type { Config } from "../api/config.ts";
import { CommandError } from "../cli/client.ts";
import { errorCode } from "../lib/error-code.ts";
import { isClone } from "./clone.ts";
import { endEngines } from "./down.ts";
import { readSettings } from "./settings.ts";
import { hasLiveGateway } from "./state-files.ts";

export interface UninstallOptions {
  readonly env: NodeJS.ProcessEnv;
  /** Where this program lies. */
  readonly root: string;
  /** False: only tells. */
  readonly isConfirmed: boolean;
  /** Tokens, models and found digests stay. */
  readonly keepsData: boolean;
  readonly removesConfig: boolean;
  /** In a clone: what `make setup` has put there goes too. */
  readonly isDev: boolean;
  readonly write: (text: string) => void;
}

/** What `berth uninstall` removes, and what it leaves to its owner. */
interface Removal {
  readonly goes: readonly string[];
  /** Directories that go where nothing is left in them. */
  readonly emptied: readonly string[];
  readonly stays: readonly string[];
}

/** What Berth makes in its state directory (docs/operations.md); whatever else is there is not its own. */
export const stateParts: readonly string[] = [
  "aside",
  "demand",
  "discovered",
  "engines",
  "hardware",
  "images",
  "instance",
  "logs",
  "operator.json",
  "operator.lock",
  "processes",
  "registry.json",
  "requests",
  "slots",
  "spool",
];
export const dataParts: readonly string[] = ["auth", "engines.lock.yaml", "models"];
const configParts = ["slots", "models", "upstreams", "berth.toml", ".backup", "credentials.json"];
const cloneParts = ["node_modules", "engines/node_modules", ".cache"];

/**
 * `berth uninstall`: ends every engine and removes the state directory's parts; the configuration only when told.
 * Without confirmation it says what it would do. Throws CommandError where an operator or a gateway runs.
 */
export async function uninstall(options: UninstallOptions): Promise<void> {
  const { write, isConfirmed } = options;
  const { config } = await readSettings(options.env);
  const { goes, stays } = await removalOf(config, options);
  if (!isConfirmed) {
    write("would stop every engine of this instance\n");
    for (const path of goes) write(`would remove ${path}\n`);
    for (const line of stays) write(`would leave ${line}\n`);
    write("nothing has been done; --yes does it\n");
    return;
  }
  if ((await hasLiveGateway(config.stateDir, Date.now())) === true) {
    throw new CommandError(
      "gateway.running",
      `a gateway runs with ${config.stateDir}`,
      "stop it, or `berth up`, first",
    );
  }
  // A state directory that no operator has used has no engines; asking would begin to use it.
  const slots = isUsed(config.stateDir) ? await endEngines(config) : [];
  write(slots.length === 0 ? "no engine runs\n" : `stopped ${slots.join(", ")}\n`);
  // Whoever ends engines leaves traces of his own.
  const { goes: all, emptied } = await removalOf(config, options);
  for (const path of all) {
    await rm(path, { recursive: true, force: true });
    write(`removed ${path}\n`);
  }
  for (const path of emptied) {
    const left = await namesIn(path);
    if (left === undefined) continue;
    if (left.length === 0) {
      await rmdir(path);
      write(`removed ${path}\n`);
    } else write(`left ${path}: ${left.join(", ")}\n`);
  }
  for (const line of stays) write(`left ${line}\n`);
}

const isUsed = (stateDir: string): boolean => existsSync(join(stateDir, "instance"));

async function removalOf(config: Config, options: UninstallOptions): Promise<Removal> {
  const { stateDir, configDir, modelsDir } = config;
  const { keepsData, removesConfig, isDev, root, env } = options;
  if (stateDir === "/" || stateDir === env["HOME"])
    throw new CommandError("state.shared", `${stateDir} is not Berth's alone`, "remove its parts there by hand");
  const goes: string[] = [];
  const emptied: string[] = [];
  const stays: string[] = [];
  const take = async (directory: string, parts: readonly string[]): Promise<void> => {
    for (const part of parts) if (await isThere(join(directory, part))) goes.push(join(directory, part));
  };
  if (isUsed(stateDir) || (await isThere(join(stateDir, "auth")))) {
    await take(stateDir, keepsData ? stateParts : [...stateParts, ...dataParts].toSorted());
    emptied.push(stateDir);
  }
  if (relative(stateDir, modelsDir) !== "models" && (await isThere(modelsDir)))
    stays.push(`${modelsDir}: models that you have put there`);
  if (removesConfig) {
    if (config.readOnly || (await isThere(join(configDir, ".berth-read-only"))))
      throw new CommandError("config.read_only", `${configDir} belongs to somebody else`, "leave out --config");
    await take(configDir, configParts);
    emptied.push(configDir);
  } else if (await isThere(configDir)) stays.push(`${configDir}: your manifests; --config removes them`);
  const isOwnClone = isClone(root);
  if (isDev && !isOwnClone)
    throw new CommandError("clone.none", `${root} is no clone: there is no \`make setup\``, "leave out --dev");
  // Last: this program runs from there.
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
