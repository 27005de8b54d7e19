import { secretConfigKeys, environmentName, tomlName, configShape, defaultConfigDir } from "../api/config.ts";
import { readSettings } from "./settings.ts";

/** The directory to validate: the one named, else the one a service would use. */
export function configDirOf(env: NodeJS.ProcessEnv): string {
  const places = {
    isRoot: process.getuid?.() === 0,
    home: env["HOME"] || undefined,
    xdgConfigHome: env["XDG_CONFIG_HOME"] || undefined,
    xdgStateHome: env["XDG_STATE_HOME"] || undefined,
  };
  return env["SVC_CONFIG_DIR"] || defaultConfigDir(places) || ".";
}

/** `berth config validate`: problems one per line as `file:line:column: path: message`. Empty: valid. */
export async function validateConfig(directory: string): Promise<readonly string[]> {
  const { validateDirectory } = await import("../store/validate.ts");
  const diagnostics = await validateDirectory(directory);
  return diagnostics.map(({ file, line, column, path, message }) => {
    const place = [file, line, column].filter((part) => part !== undefined).join(":");
    return `${place}: ${path === undefined || path.length === 0 ? "" : `${path.join(".")}: `}${message}`;
  });
}

/** `berth config show`: what is in force, where each value comes from, secrets masked. */
export async function showConfig(
  env: NodeJS.ProcessEnv,
): Promise<Record<string, { value: unknown; origin: string; environment: string; toml: string }>> {
  const { config, origins } = await readSettings(env);
  const secrets: readonly string[] = secretConfigKeys;
  const shown: Record<string, { value: unknown; origin: string; environment: string; toml: string }> = {
    configDir: {
      value: config.configDir,
      origin: env["SVC_CONFIG_DIR"] ? "environment" : "default",
      environment: "SVC_CONFIG_DIR",
      toml: "-",
    },
  };
  const values: Readonly<Record<string, unknown>> = { ...config };
  let key: keyof typeof configShape;
  for (key in configShape) {
    const value = values[key];
    const isMasked = secrets.includes(key) && value !== undefined;
    shown[key] = {
      value: isMasked ? "********" : (value ?? null),
      origin: origins[key] ?? "default",
      environment: environmentName(key),
      toml: tomlName(key),
    };
  }
  return shown;
}
