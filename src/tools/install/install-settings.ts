import { join } from "node:path";
import { loadConfig, type Config } from "../../api/config.ts";
import { CommandError } from "../../cli/client.ts";
import type { Input, Output } from "../../cli/terminal.ts";
import { readText } from "../../lib/read-text.ts";
import { placesOf, SettingsError } from "../../program/settings.ts";
import { settingsAsOwner } from "./as-owner.ts";
import { keptSettings, readEnvironment, withSettings, type EnvironmentChange } from "./environment-file.ts";
import type { Layout } from "./layout.ts";
import { statusOf } from "./paths.ts";
import { askForEdge } from "./questions.ts";

interface SettingsOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly layout: Layout;
  readonly hasEdge: boolean;
  readonly input: () => Input;
  readonly screen: Output;
}

/** The settings that an installation knows before it makes its plan. */
export interface InstallSettings {
  readonly config: Config;
  /** The environment of the services, and for this run the administrator that is given. */
  readonly env: NodeJS.ProcessEnv;
  readonly change: EnvironmentChange;
}

/**
 * The settings of the services: the lines of the environment file, and the settings of this command, which the file gets.
 * `isAsked`: what the edge proxy needs is asked for. Throws CommandError, SettingsError.
 */
export async function installSettings(options: SettingsOptions, isAsked: boolean): Promise<InstallSettings> {
  const { layout, env } = options;
  checkPlaces(env, layout);
  checkNames(env);
  const text = await readText(layout.environmentFile);
  const inFile = readEnvironment(text);
  const given = await withAnswers(options, { ...env, ...inFile }, isAsked);
  const settings = keptSettings(given);
  const wanted = { SVC_HOST: "127.0.0.1", ...settings };
  const restart = `systemctl${layout.isSystem ? "" : " --user"} restart berth-operator berth-gateway`;
  const places = { SVC_CONFIG_DIR: layout.configDir, SVC_STATE_DIR: layout.stateDir };
  // A line of the file stays, so that it counts.
  const whole = { ...given, ...wanted, ...inFile, ...places };
  return { env: whole, config: (await settingsAsOwner(whole)).config, change: withSettings(text, wanted, restart) };
}

function checkPlaces(env: NodeJS.ProcessEnv, { configDir, stateDir }: Layout): void {
  for (const [name, place] of Object.entries({ SVC_CONFIG_DIR: configDir, SVC_STATE_DIR: stateDir })) {
    if (!env[name] || env[name] === place) continue;
    const next = `unset ${name}, or run \`berth up\` with it`;
    throw new CommandError("config.invalid", `${name} is ${env[name]}, and an installation uses ${place}`, next);
  }
}

/** A wrong name would be lost in silence: no service reads it. */
function checkNames(env: NodeJS.ProcessEnv): void {
  const ignored = / is not a setting and is ignored$/;
  const unknown = loadConfig(env, {}, placesOf(env)).warnings.filter((line) => ignored.test(line));
  if (unknown.length > 0) throw new SettingsError(unknown.map((line) => line.replace(ignored, " is not a setting")));
}

/** The environment, with what the edge proxy needs and nobody has given. */
async function withAnswers(
  { env, layout, hasEdge, input, screen }: SettingsOptions,
  known: NodeJS.ProcessEnv,
  isAsked: boolean,
): Promise<NodeJS.ProcessEnv> {
  if (!isAsked || !hasEdge || !layout.isSystem) return env;
  const { config } = loadConfig(known, {}, placesOf(known));
  const isKnown = (await statusOf(join(layout.stateDir, "auth/admin.json"))) !== undefined;
  if (config?.authEnabled !== true || isKnown) return env;
  return { ...env, ...(await askForEdge(config, Boolean(known["SVC_HOSTNAME"]), input(), screen)) };
}
