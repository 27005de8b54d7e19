/** Command names of Ollama and Docker, with Berth's equivalents. */
const elsewhere: Readonly<Record<string, string>> = {
  ps: "berth slot list",
  ls: "berth slot list",
  list: "berth slot list",
  show: "berth slot show SLOT",
  inspect: "berth slot show SLOT -o json",
  logs: "berth slot logs SLOT",
  start: "berth slot load SLOT",
  load: "berth slot load SLOT",
  stop: "berth slot unload SLOT",
  unload: "berth slot unload SLOT",
  kill: "berth slot unload SLOT",
  restart: "berth slot restart SLOT",
  create: "berth slot create SLOT",
  swap: "berth slot swap SLOT MODEL",
  run: "berth chat SLOT",
  images: "berth model list",
  models: "berth model list",
  rm: "berth model rm MODEL",
  rmi: "berth model rm MODEL",
  info: "berth status",
  stats: "berth status --watch",
  version: "berth --version",
  providers: "berth upstream list",
};

const options: Readonly<Record<string, string>> = {
  "--json": "write -o json",
  "--yaml": "write -o yaml",
  "--format": "write -o, with table, wide, json, yaml or name",
  "--host": "write --server URL before the command",
  "--url": "write --server URL before the command",
};

/**
 * A message of the parser in Berth's form, with the probable command. `call`: the command that it is about,
 * `berth slot`.
 */
export function usageText(text: string, call: string): string {
  const said = text.replace(/^error: /, "usage: ");
  const command = /^usage: unknown command '([^']*)'/.exec(said)?.[1] ?? "";
  const option = /^usage: unknown option '([^'=]*)/.exec(said)?.[1] ?? "";
  if (call === "berth" && Object.hasOwn(elsewhere, command)) {
    return said.replace(/'\n[^]*$/, `'; here it is \`${elsewhere[command] ?? ""}\`\n`);
  }
  // The commands below it are about pulls that run; elsewhere it fetches.
  if (call === "berth pull" && command !== "")
    return said.replace(/'\n[^]*$/, `'; a model is fetched by \`berth model pull ${command}\`\n`);
  if (Object.hasOwn(options, option)) return said.replace(/'\n[^]*$/, `'; ${options[option] ?? ""}\n`);
  return said.replace(/\n\(Did you mean (.*)\?\)/, "; did you mean $1?");
}
