import { existsSync } from "node:fs";
import { join } from "node:path";
import { defaultConfigDir } from "../api/config.ts";
import { shownSettings } from "../api/shown-settings.ts";
import { diagnosticLine } from "../api/diagnostic.ts";
import { cell, render, renderOne, type Column, type Format } from "../cli/output.ts";
import { become } from "./owner.ts";
import { placesOf, readSettings, withAbsolutePaths } from "./settings.ts";

/** The directory to validate: the one named, else the one a service would use. */
export function configDirOf(env: NodeJS.ProcessEnv): string {
  return withAbsolutePaths(env)["SVC_CONFIG_DIR"] || defaultConfigDir(placesOf(env)) || ".";
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

/** What is valid and should be known, one per line: a secret in plain text. */
export async function configWarnings(directory: string): Promise<readonly string[]> {
  const { declared, secretFindings } = await import("./doctor/configuration.ts");
  const { slots } = await declared(directory);
  return [...slots]
    .flatMap(([name, spec]) => secretFindings(name, spec))
    .map(({ message, next }) => `warning: ${message}; ${next ?? ""}`);
}

const settingColumns: readonly Column[] = [
  { title: "SETTING", value: (row) => cell(row["environment"]) },
  { title: "VALUE", value: (row) => cell(row["value"]) },
  { title: "FROM", value: (row) => cell(row["origin"]) },
  { title: "BERTH.TOML", isWide: true, value: (row) => cell(row["toml"]) },
];

/** `berth config show`: what is in force, where each value comes from, secrets masked. Throws SettingsError. */
export async function configText(env: NodeJS.ProcessEnv, format: Format): Promise<string> {
  const { config, origins } = await readSettings(env, { takeOwner: (owner) => become(owner, env) });
  const ofDirectory = {
    value: config.configDir,
    origin: env["SVC_CONFIG_DIR"] ? "environment" : "default",
    environment: "SVC_CONFIG_DIR",
    // It is no setting of berth.toml, which lies there.
    toml: null,
  };
  const settings = { config_dir: ofDirectory, ...shownSettings(config, origins) };
  if (format === "json" || format === "yaml") return await renderOne(settings, format);
  const rows = Object.entries(settings).map(([name, setting]) => ({ name, ...setting }));
  return await render(rows, settingColumns, format, "environment");
}
