import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { defaultConfigDir } from "../../api/config-places.ts";
import type { ModelRecord } from "../../api/model.ts";
import { shownSettings } from "../../api/shown-settings.ts";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { cell, render, renderOne, type Column, type Format } from "../../cli/output.ts";
import { become } from "../../program/owner.ts";
import { placesOf, readSettings, withAbsolutePaths } from "../../program/settings.ts";

/** The directory to validate: the given one, else the service's. */
export function configDirOf(env: NodeJS.ProcessEnv): string {
  return withAbsolutePaths(env)["SVC_CONFIG_DIR"] || defaultConfigDir(placesOf(env)) || ".";
}

/**
 * `berth config validate`: problems one per line as `file:line:column: path: message`. Empty: valid. `isElsewhere`: the
 * directory is no service's.
 */
export async function validateConfig(directory: string, isElsewhere = false): Promise<readonly string[]> {
  const parts = ["slots", "models", "upstreams", "groups", "berth.toml"];
  if (!parts.some((part) => existsSync(join(directory, part)))) {
    return [
      `${directory}: there is nothing to check; give a directory with ${parts.slice(0, -1).join(", ")} or berth.toml`,
    ];
  }
  const { validateDirectory } = await import("../../store/files/validate.ts");
  return (await validateDirectory(directory, { isElsewhere })).map(diagnosticLine);
}

/** Slots of the service's own directory that cannot fit this machine, one per line as of `validateConfig`. */
export async function unfitSlots(env: NodeJS.ProcessEnv, directory: string): Promise<readonly string[]> {
  const { slotsInDirectory } = await import("../../store/files/declared-slots.ts");
  const slots = await slotsInDirectory(directory);
  const { config } = await readSettings(env, { takeOwner: (owner) => become(owner, env) });
  const models = new Map((await recordsIn(config.modelsDir)).map((record) => [record.ref, record]));
  const isJudged = slots.some(
    ({ spec }) => models.has(spec.model.default ?? "") || spec.resources.memoryBytes !== undefined,
  );
  if (!isJudged) return [];
  const { ShapeCache } = await import("../../models/fit/shape-cache.ts");
  const { slotRefusal } = await import("../../models/fit/slot-fit.ts");
  const { hardwareProbe } = await import("../../program/hardware.ts");
  const { withSuggestions } = await import("../../engines/suggestion.ts");
  const machine = withSuggestions(await (await hardwareProbe(config))(undefined));
  const facts = { models, machine, runtime: config.runtime, shapes: new ShapeCache() };
  const lines: string[] = [];
  for (const { name, spec, ...place } of slots) {
    const refusal = await slotRefusal(name, spec, facts);
    if (refusal === undefined) continue;
    lines.push(diagnosticLine({ ...place, path: [...refusal.path], message: `${refusal.subject} ${refusal.message}` }));
  }
  return lines;
}

async function recordsIn(modelsDir: string): Promise<readonly ModelRecord[]> {
  // Opening the registry would make the directory.
  if (!existsSync(modelsDir)) return [];
  const { openRegistry } = await import("../../models/registry.ts");
  await using registry = await openRegistry({ modelsDir });
  return await registry.records([]);
}

/**
 * Warnings about a configuration, one per line: a secret in plain text, a group that no file declares, a file that is
 * not read.
 */
export async function configWarnings(directory: string): Promise<readonly string[]> {
  const { declared, groupFindings, secretFindings } = await import("../doctor/configuration.ts");
  const { slots, groups } = await declared(directory);
  const unread = (await unreadFiles(directory)).map((file) => ({
    message: `${file} is not read`,
    next: "write its manifest as .toml, .yaml or .yml",
  }));
  const secrets = [...slots].flatMap(([name, spec]) => secretFindings(name, spec));
  return [...secrets, ...groupFindings(slots, groups), ...unread].map(
    ({ message, next }) => `warning: ${message}; ${next ?? ""}`,
  );
}

/** Files in the directories of manifests that a person may take for manifests: JSON, and `A.TOML`. */
async function unreadFiles(directory: string): Promise<readonly string[]> {
  const { directoryOfKind } = await import("../../api/names.ts");
  const { isManifestFile } = await import("../../store/files/manifest.ts");
  const found = await Promise.all(
    Object.values(directoryOfKind).map(async (each) => {
      const names = await readdir(join(directory, each)).catch(() => []);
      return names
        .filter((name) => /^[^.].*\.(?:json|toml|ya?ml)$/i.test(name) && !isManifestFile(name))
        .toSorted()
        .map((name) => join(directory, each, name));
    }),
  );
  return found.flat();
}

const settingColumns: readonly Column[] = [
  { title: "SETTING", value: (row) => cell(row["environment"]) },
  { title: "VALUE", value: (row) => cell(row["value"]) },
  { title: "FROM", value: (row) => cell(row["origin"]) },
  { title: "BERTH.TOML", isWide: true, value: (row) => cell(row["toml"]) },
];

/** `berth config show`: the settings in force, with the source of each value, secrets masked. Throws SettingsError. */
export async function configText(env: NodeJS.ProcessEnv, format: Format): Promise<string> {
  const { config, origins } = await readSettings(env, { takeOwner: (owner) => become(owner, env) });
  const ofDirectory = {
    value: config.configDir,
    origin: env["SVC_CONFIG_DIR"] ? "environment" : "default",
    environment: "SVC_CONFIG_DIR",
    // The directory is no setting of berth.toml, which lies in it.
    toml: null,
  };
  const settings = { config_dir: ofDirectory, ...shownSettings(config, origins) };
  if (format === "json" || format === "yaml") return await renderOne(settings, format);
  const rows = Object.entries(settings).map(([name, setting]) => ({ name, ...setting }));
  return await render(rows, settingColumns, format, "environment");
}
