import { configShape, environmentName, secretConfigKeys, tomlName } from "./config.ts";
import type { Config, ConfigKey, ConfigOrigin, LoadedConfig } from "./config.ts";

export interface ShownSetting {
  readonly value: unknown;
  readonly origin: ConfigOrigin;
  readonly environment: string;
  readonly toml: string;
}

/** Every setting as people write it, by its name in berth.toml; secrets are masked, an absent value is null. */
export function shownSettings(config: Config, origins: LoadedConfig["origins"]): Record<string, ShownSetting> {
  const secrets: readonly string[] = secretConfigKeys;
  const { first, last } = config.slotPorts;
  const values: Readonly<Record<string, unknown>> = { ...config, slotPorts: `${first}-${last}` };
  const shown: Record<string, ShownSetting> = {};
  let key: ConfigKey;
  for (key in configShape) {
    const value = values[key] ?? null;
    shown[tomlName(key)] = {
      value: secrets.includes(key) && value !== null ? "********" : value,
      origin: origins[key] ?? "default",
      environment: environmentName(key),
      toml: tomlName(key),
    };
  }
  return shown;
}
