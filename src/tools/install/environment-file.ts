import { CommandError } from "../../cli/client.ts";

/**
 * Variables that never stand in the environment file: the password and its user, of which the state directory keeps a hash;
 * the directories, which the units name; those of the command line.
 */
const unkept: readonly string[] = [
  "SVC_ADMIN_USER",
  "SVC_ADMIN_PASSWORD",
  "SVC_CONFIG_DIR",
  "SVC_STATE_DIR",
  "SVC_URL",
  "SVC_TOKEN",
];

/** The settings of a command's environment that an installation keeps for its services. */
export function keptSettings(env: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      name.startsWith("SVC_") && value && !unkept.includes(name) ? [[name, value]] : [],
    ),
  );
}

/**
 * The variables of an environment file of systemd, by systemd.exec(5): lines that begin with `#` or `;` are comments, and a
 * backslash at the end of a line goes on in the next one. A quoted value has one line here.
 */
export function readEnvironment(text: string | undefined): Readonly<Record<string, string>> {
  const lines = (text ?? "").replaceAll(/\\\r?\n/g, "").split(/\r?\n/);
  return Object.fromEntries(
    lines.flatMap((line) => {
      // Neither name can begin with a comment's character.
      const [, name, value = ""] = /^\s*([A-Za-z_]\w*)\s*=(.*)$/.exec(line) ?? [];
      return name === undefined ? [] : [[name, unquoted(value.trim())]];
    }),
  );
}

function unquoted(value: string): string {
  const [, single] = /^'([^']*)'$/.exec(value) ?? [];
  if (single !== undefined) return single;
  const [, double] = /^"((?:[^"\\]|\\.)*)"$/.exec(value) ?? [];
  return double === undefined ? value.replaceAll(/\\(.)/g, "$1") : double.replaceAll(/\\(["\\$`])/g, "$1");
}

const head = (
  restart: string,
): string => `# Settings and secrets of Berth, one NAME=value per line; docs/configuration.md lists them. After a change:
# ${restart}
# SVC_HOST=0.0.0.0 opens the API to the network; without SVC_AUTH_ENABLED=1 everybody there may use it.
`;

export interface EnvironmentChange {
  readonly text: string;
  /** Names that are added. */
  readonly added: readonly string[];
  /** Wanted settings that the file already has with another value, which stays. */
  readonly kept: readonly string[];
}

/**
 * The file with these settings added. A line that is there stays, whoever wrote it. `restart`: the command for the head of a
 * new file. Throws CommandError for a value that needs quotes of both kinds.
 */
export function withSettings(
  known: string | undefined,
  wanted: Readonly<Record<string, string>>,
  restart: string,
): EnvironmentChange {
  const values = readEnvironment(known);
  const added = Object.keys(wanted).filter((name) => !(name in values));
  const kept = Object.keys(wanted).filter((name) => name in values && values[name] !== wanted[name]);
  const before = known ?? head(restart);
  const lines = added.map((name) => `${name}=${quoted(name, wanted[name] ?? "")}\n`).join("");
  return { text: `${before}${before === "" || before.endsWith("\n") ? "" : "\n"}${lines}`, added, kept };
}

function quoted(name: string, value: string): string {
  if (/^[\w./:@,+=*-]+$/.test(value)) return value;
  if (/^[^'\n\r\\]*$/.test(value)) return `'${value}'`;
  throw new CommandError(
    "config.invalid",
    `${name} has a quote, a backslash or a line break, which an environment file writes in its own way`,
    "leave it out, and write its line into the file after the installation",
  );
}
