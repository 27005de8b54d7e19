import { existsSync } from "node:fs";
import { join } from "node:path";
import { secretConfigKeys, environmentName, tomlName, configShape, defaultConfigDir } from "../api/config.ts";
import { diagnosticLine } from "../api/diagnostic.ts";
import { cell, render, renderOne, type Column, type Format } from "../cli/output.ts";
import { placesOf, readSettings } from "./settings.ts";

/** The directory to validate: the one named, else the one a service would use. */
export function configDirOf(env: NodeJS.ProcessEnv): string {
  return env["SVC_CONFIG_DIR"] || defaultConfigDir(placesOf(env)) || ".";
}

/** `berth config validate`: problems one per line as `file:line:column: path: message`. Empty: valid. */
export async function validateConfig(directory: string): Promise<readonly string[]> {
  const parts = ["slots", "models", "upstreams", "berth.toml"];
  if (!parts.some((part) => existsSync(join(directory, part)))) {
    return [
      `${directory}: there is nothing to check; give a directory with ${parts.slice(0, 3).join(", ")} or berth.toml`,
    ];
  }
  const { validateDirectory } = await import("../store/validate.ts");
  return (await validateDirectory(directory)).map(diagnosticLine);
}

interface ShownSetting {
  readonly value: unknown;
  readonly origin: string;
  readonly environment: string;
  /** Null: it is no setting of berth.toml. */
  readonly toml: string | null;
}

const settingColumns: readonly Column[] = [
  { title: "SETTING", value: (row) => cell(row["environment"]) },
  { title: "VALUE", value: (row) => cell(row["value"]) },
  { title: "FROM", value: (row) => cell(row["origin"]) },
  { title: "BERTH.TOML", isWide: true, value: (row) => cell(row["toml"]) },
];

/** `berth config show`: what is in force, where each value comes from, secrets masked. Throws SettingsError. */
export async function configText(env: NodeJS.ProcessEnv, format: Format): Promise<string> {
  const settings = await shownSettings(env);
  if (format === "json" || format === "yaml") return await renderOne(settings, format);
  const rows = Object.entries(settings).map(([name, setting]) => ({ name, ...setting }));
  return await render(rows, settingColumns, format, "environment");
}

async function shownSettings(env: NodeJS.ProcessEnv): Promise<Record<string, ShownSetting>> {
  const { config, origins } = await readSettings(env);
  const secrets: readonly string[] = secretConfigKeys;
  const shown: Record<string, ShownSetting> = {
    config_dir: {
      value: config.configDir,
      origin: env["SVC_CONFIG_DIR"] ? "environment" : "default",
      environment: "SVC_CONFIG_DIR",
      toml: null,
    },
  };
  const values: Readonly<Record<string, unknown>> = { ...config };
  let key: keyof typeof configShape;
  for (key in configShape) {
    const value = values[key];
    const isMasked = secrets.includes(key) && value !== undefined;
    const plain = key === "slotPorts" ? `${config.slotPorts.first}-${config.slotPorts.last}` : (value ?? null);
    shown[tomlName(key)] = {
      value: isMasked ? "********" : plain,
      origin: origins[key] ?? "default",
      environment: environmentName(key),
      toml: tomlName(key),
    };
  }
  return shown;
}
