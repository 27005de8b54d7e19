import { resolve } from "node:path";
import { loadConfig, type Config, type LoadedConfig } from "../api/config.ts";
import { defaultConfigDir, defaultStateDir, type ConfigPlaces } from "../api/config-places.ts";
import { diagnosticLine } from "../api/diagnostic.ts";
import { distrust, type TrustOptions } from "../lib/trusted-path.ts";
import { become, isStartedByRoot, ownerToActAs, type Owner } from "./owner.ts";

/** The configuration is unusable: one line per problem, each with its remedy. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

export interface Settings {
  readonly config: Config;
  readonly origins: LoadedConfig["origins"];
  readonly warnings: readonly string[];
}

export interface ReadOptions {
  /**
   * For a command that root runs on directories of the service's user: called with that user before any file there is
   * opened. Absent, as for the service itself: such a directory is refused.
   */
  readonly takeOwner?: (owner: Owner) => Promise<void>;
  /** For a command that reports an unsafe state or models directory itself, and uses neither. */
  readonly skipsOwnerChecks?: boolean;
}

/**
 * Environment over `<config>/berth.toml` over defaults. Throws SettingsError, also where another user could change the
 * contents of the configuration, the state or the models directory: a manifest's `command` runs as this user.
 */
export async function readSettings(variables: NodeJS.ProcessEnv, options: ReadOptions = {}): Promise<Settings> {
  const env = withAbsolutePaths(variables);
  const places = placesOf(env);
  const configDir = env["SVC_CONFIG_DIR"] || defaultConfigDir(places);
  let values: Readonly<Record<string, unknown>> = {};
  if (configDir !== undefined) {
    // Before the change of user, who may have no right to read this program.
    const { readBerthToml } = await import("../store/files/berth-toml.ts");
    await takeOwnerOf(configDir, options);
    await refuseForeign("configuration", configDir, configTrust);
    const file = await readBerthToml(configDir);
    if (file.diagnostics.length > 0) {
      throw new SettingsError(file.diagnostics.map(diagnosticLine));
    }
    values = file.values;
  }
  const { config, origins, problems, warnings } = loadConfig(env, values, places);
  if (config === undefined) throw new SettingsError(problems.map(({ key, message }) => `${key} ${message}`));
  await takeOwnerOf(config.stateDir, options);
  if (options.skipsOwnerChecks !== true) {
    await refuseForeign("state", config.stateDir, stateTrust);
    await refuseForeign("models", config.modelsDir, {});
  }
  // The variable of the container tools: Berth uses the same daemon.
  const dockerHost = config.dockerHost ?? (env["DOCKER_HOST"] || undefined);
  return { config: { ...config, ...(dockerHost === undefined ? {} : { dockerHost }) }, origins, warnings };
}

async function takeOwnerOf(directory: string, { takeOwner }: ReadOptions): Promise<void> {
  const owner = takeOwner === undefined ? undefined : await ownerToActAs(directory);
  if (owner !== undefined) await takeOwner?.(owner);
}

/**
 * For a command that reads and writes only the configuration directory: as its owner where root runs it. Throws
 * SettingsError where another user could change its contents.
 */
export async function takeConfigDir(env: NodeJS.ProcessEnv, configDir: string): Promise<void> {
  const owner = await ownerToActAs(configDir);
  if (owner !== undefined) await become(owner, env);
  await checkConfigDir(configDir);
}

/** Throws SettingsError where a user other than this process's user and root could change its contents. */
export async function checkConfigDir(configDir: string): Promise<void> {
  await refuseForeign("configuration", configDir, configTrust);
}

/**
 * Manifests and berth.toml name programs. A manifest is judged where it is read (`store/files/manifest-text.ts`): only its
 * own resource is refused then, and all others run.
 */
const configTrust = { depth: 1, entries: /^(slots|models|upstreams|groups|berth\.toml)$/ } as const;
/** `auth/tokens` and `requests/removals` are two levels down. */
export const stateTrust = { depth: 2 } as const;

async function refuseForeign(what: string, directory: string, trust: TrustOptions): Promise<void> {
  const found = distrust(directory, trust);
  if (found !== undefined)
    throw new SettingsError([`the ${what} directory ${directory} is not safe: ${found.reason}; ${found.next}`]);
}

/** The state directory, also while the configuration is invalid; undefined where nothing sets it. */
export async function stateDirOf(env: NodeJS.ProcessEnv, configDir: string): Promise<string | undefined> {
  const { readBerthToml } = await import("../store/files/berth-toml.ts");
  const named = withAbsolutePaths(env)["SVC_STATE_DIR"] || (await readBerthToml(configDir)).values["state_dir"];
  return typeof named === "string" && named.startsWith("/") ? named : defaultStateDir(placesOf(env));
}

/**
 * A relative path in a shell's variable means the shell's directory. In a file a relative path has no such meaning: it
 * stays unchanged, and is refused.
 */
export function withAbsolutePaths(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const paths = ["SVC_CONFIG_DIR", "SVC_STATE_DIR", "SVC_MODELS_DIR"].flatMap((name) => {
    const path = env[name];
    return path === undefined || path === "" ? [] : [[name, resolve(path)]];
  });
  return { ...env, ...Object.fromEntries(paths) };
}

/** The places of this user's configuration and state, by the environment. */
export function placesOf(env: NodeJS.ProcessEnv): ConfigPlaces {
  return {
    isRoot: isStartedByRoot,
    home: env["HOME"] || undefined,
    xdgConfigHome: env["XDG_CONFIG_HOME"] || undefined,
    xdgStateHome: env["XDG_STATE_HOME"] || undefined,
  };
}
