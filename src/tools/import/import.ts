import { access, constants, open } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { loadConfig, type Config } from "../../api/config.ts";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { CommandError } from "../../cli/client.ts";
import { printable } from "../../cli/output.ts";
import { errorCode } from "../../lib/error-code.ts";
import { userName } from "../../lib/accounts.ts";
import { findLlamaServer } from "../../program/llama-server.ts";
import { actAs, ownerToActAs } from "../../program/owner.ts";
import { placesOf, SettingsError, takeConfigDir, withAbsolutePaths } from "../../program/settings.ts";
import { askServer } from "../../program/server-facts.ts";
import { configDirOf } from "../config/config.ts";
import { changesFor, checkChanges, declarationsIn, diffOf, slotNames, validOnly, writeChanges } from "./changes.ts";
import type { Imported, ImportedSlot } from "./imported.ts";
import { manifestsOf } from "./manifests.ts";
import type { ImportSource } from "./import-commands.ts";
import { emptySource, whyUnread } from "./source-text.ts";

export interface Importing {
  readonly env: NodeJS.ProcessEnv;
  readonly source: ImportSource;
  /** The file or directory; absent: where Ollama keeps its models. */
  readonly path: string | undefined;
  /** The configuration directory; absent: the one a service would use. */
  readonly dir: string | undefined;
  readonly force: boolean;
  readonly write: (text: string) => void;
  /** Whether the changes shall be written: asked once, after they are shown. */
  readonly agrees: (question: string) => Promise<boolean>;
}

/**
 * `berth config import`: reads what another program is configured to serve, and writes it as manifests. Shows the difference
 * first, and then each setting that was not carried. Returns false where there are changes that were not written. Throws
 * CommandError for a source that cannot be read, and for a directory that would become invalid.
 */
export async function importConfig({ env, source, path, dir, force, write, agrees }: Importing): Promise<boolean> {
  const origin = resolve(path ?? (await ollamaDirectory(env)));
  // As the caller, whose file it is; the configuration belongs to its own user.
  const imported = await readers[source](origin, env);
  const configDir = resolve(dir ?? configDirOf(env));
  const unread = await unreadFiles(imported.slots, await configIn(configDir, env));
  await takeConfigDir(env, configDir);
  const config = await configIn(configDir, env);
  if (config.store === "kubernetes" && dir === undefined)
    throw new CommandError(
      "config.read_only",
      "the slots of this service are custom resources (SVC_STORE=kubernetes)",
      "name a directory of files by --dir",
    );
  const declarations = await declarationsIn(configDir);
  const { yamlText } = await import("../../store/edit/yaml-text.ts");
  const { manifests, omissions } = await manifestsOf(imported, {
    origin,
    modelsDir: config.modelsDir,
    device: imported.groups.some(({ budget }) => budget === "memory") ? await firstDevice(config) : "host",
    declared: slotNames(declarations, configDir),
    yaml: yamlText,
  });
  const { valid, faults } = await validOnly(configDir, manifests);
  const { changes, kept } = await changesFor(configDir, valid, { declarations, force });
  await checkChanges(configDir, changes);
  write(diffOf(changes));
  const lost = omissions.map(({ file, line, what, why }) => diagnosticLine({ file, line, message: `${what}: ${why}` }));
  // A given directory may lie anywhere: no program that it names is run.
  const unknown = dir === undefined ? await unknownFlags(imported.slots, config, env) : [];
  write(section("Not carried, or not quite:", [...lost, ...faults, ...unread, ...unknown]));
  write(section("Kept:", kept));
  if (valid.length === 0) throw emptySource(`${origin}: it has no model that can be carried`);
  const files = changes.length === 1 ? "1 file" : `${changes.length} files`;
  if (changes.length === 0) {
    write(`${configDir}: nothing to do\n`);
    return true;
  }
  if (!(await agrees(`Write ${files} to ${configDir}?`))) {
    write(`nothing was written; --yes writes ${files} to ${configDir}\n`);
    return false;
  }
  await writeChanges(configDir, changes);
  write(`wrote ${files} to ${configDir}\n`);
  return true;
}

function section(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? "" : `${[title, ...lines.map((line) => `  ${printable(line)}`)].join("\n")}\n`;
}

const readers = {
  "llama-swap": async (origin, env) => (await import("./llama-swap.ts")).importLlamaSwap(origin, env),
  "llama-server": async (origin) => (await import("./presets.ts")).importPresets(origin),
  ollama: async (origin) => (await import("./ollama.ts")).importOllama(origin),
  "lm-studio": async (origin) => (await import("./lm-studio.ts")).importLmStudio(origin),
  compose: async (origin, env) => (await import("./compose.ts")).importCompose(origin, env),
} as const satisfies Record<ImportSource, (origin: string, env: NodeJS.ProcessEnv) => Promise<Imported>>;

/** Ollama's own choice: OLLAMA_MODELS, else the user's directory, else that of the service (its FAQ, "models stored"). */
async function ollamaDirectory(env: NodeJS.ProcessEnv): Promise<string> {
  const { OLLAMA_MODELS: named } = env;
  if (named) return named;
  const places = [join(env["HOME"] || homedir(), ".ollama/models"), "/usr/share/ollama/.ollama/models"];
  for (const place of places) if (await isReadable(place)) return place;
  throw new CommandError(
    "import.unreadable",
    `there is no Ollama in ${places.join(" and ")}`,
    "name the directory: berth config import ollama DIR",
  );
}

async function isReadable(path: string): Promise<boolean> {
  return await access(path, constants.R_OK).then(
    () => true,
    () => false,
  );
}

/** The settings of a service with that configuration. Throws SettingsError where they are invalid. */
async function configIn(configDir: string, variables: NodeJS.ProcessEnv): Promise<Config> {
  const env = { ...withAbsolutePaths(variables), SVC_CONFIG_DIR: configDir };
  const { readBerthToml } = await import("../../store/files/berth-toml.ts");
  const { values, diagnostics } = await readBerthToml(configDir);
  const { config, problems } = loadConfig(env, values, placesOf(env));
  if (config !== undefined && diagnostics.length === 0) return config;
  throw new SettingsError([
    ...diagnostics.map(diagnosticLine),
    ...problems.map(({ key, message }) => `${key} ${message}`),
  ]);
}

async function firstDevice(config: Config): Promise<"gpu0" | "host"> {
  const { hardwareProbe } = await import("../../program/hardware.ts");
  const { gpus } = await (await hardwareProbe(config))(undefined);
  return gpus.length > 0 ? "gpu0" : "host";
}

/** Models and programs that the user of engines, by default the service's, cannot read: one line each. */
async function unreadFiles(
  slots: readonly ImportedSlot[],
  { stateDir, engineUser }: Config,
): Promise<readonly string[]> {
  const { findUser } = await import("../../runtimes/process/user.ts");
  const user = await findUser(engineUser).catch(() => undefined);
  const owner = user ?? (await ownerToActAs(stateDir));
  using stack = new DisposableStack();
  if (owner !== undefined) stack.use(await actAs(owner));
  const who = owner === undefined ? "this user" : userName(owner.uid);
  const lines: string[] = [];
  for (const { weights, place, spec } of slots) {
    const program = spec.image === undefined ? spec.command?.[0] : undefined;
    const files = [
      ...(weights?.paths ?? []),
      weights?.projector,
      program?.startsWith("/") === true ? program : undefined,
    ];
    for (const path of files.filter((each) => each !== undefined)) {
      const error: unknown = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).then(
        async (file) => await file.close(),
        (failure: unknown) => failure,
      );
      if (error === undefined) continue;
      const isDenied = ["EACCES", "EPERM"].includes(errorCode(error) ?? "");
      const why = isDenied
        ? `${who}, as whom engines run, may not read it: chmod o+x its directories, or chmod o+r the file`
        : whyUnread(error);
      lines.push(diagnosticLine({ ...place, message: `${path}: ${why}` }));
    }
  }
  return [...new Set(lines)];
}

/**
 * Arguments that this machine's llama-server does not know: one line each. Empty where it prints no help, and where slots run
 * as containers; one line where no llama-server was found.
 */
async function unknownFlags(
  slots: readonly ImportedSlot[],
  { llamaServer, engineUser, runtime }: Config,
  env: NodeJS.ProcessEnv,
): Promise<readonly string[]> {
  const used = slots.filter(
    ({ weights, spec }) => weights !== undefined && spec.image === undefined && (spec.args ?? []).length > 0,
  );
  if (used.length === 0 || runtime === "docker" || runtime === "kubernetes") return [];
  const program = await findLlamaServer(llamaServer, env).catch(() => undefined);
  if (program === undefined) {
    const names = used.map(({ name }) => name);
    return [
      `no llama-server was found here, and the embedded engine may not know the args of ${names.join(", ")}: name a llama-server in SVC_LLAMA_SERVER`,
    ];
  }
  const { flags } = await askServer(program, { env, engineUser });
  if (flags === undefined) return [];
  return used.flatMap(({ name, place, spec }) =>
    (spec.args ?? []).flatMap((word) => {
      if (!/^--?[a-z][a-z0-9-]*$/.test(word) || flags.has(word)) return [];
      const message = `${name} ${word}: ${program} knows no such flag and would not start: remove it from args, or name another program in SVC_LLAMA_SERVER`;
      return [diagnosticLine({ ...place, message })];
    }),
  );
}
