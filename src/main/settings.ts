import { defaultConfigDir, loadConfig, type Config, type ConfigPlaces, type LoadedConfig } from "../api/config.ts";
import { diagnosticLine } from "../api/diagnostic.ts";

/** The configuration is unusable: one line per problem, each with what to do. */
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

/** Environment over `<config>/berth.toml` over defaults. Throws SettingsError. */
export async function readSettings(env: NodeJS.ProcessEnv): Promise<Settings> {
  const places = placesOf(env);
  const configDir = env["SVC_CONFIG_DIR"] || defaultConfigDir(places);
  let values: Readonly<Record<string, unknown>> = {};
  if (configDir !== undefined) {
    const { readBerthToml } = await import("../store/berth-toml.ts");
    const file = await readBerthToml(configDir);
    if (file.diagnostics.length > 0) {
      throw new SettingsError(file.diagnostics.map(diagnosticLine));
    }
    values = file.values;
  }
  const { config, origins, problems, warnings } = loadConfig(env, values, places);
  if (config === undefined) throw new SettingsError(problems.map(({ key, message }) => `${key} ${message}`));
  // The container tools' own variable: where they find the daemon, Berth does.
  const dockerHost = config.dockerHost ?? (env["DOCKER_HOST"] || undefined);
  return { config: { ...config, ...(dockerHost === undefined ? {} : { dockerHost }) }, origins, warnings };
}

/** Where this user keeps configuration and state, as far as the environment tells. */
export function placesOf(env: NodeJS.ProcessEnv): ConfigPlaces {
  return {
    isRoot: process.getuid?.() === 0,
    home: env["HOME"] || undefined,
    xdgConfigHome: env["XDG_CONFIG_HOME"] || undefined,
    xdgStateHome: env["XDG_STATE_HOME"] || undefined,
  };
}
