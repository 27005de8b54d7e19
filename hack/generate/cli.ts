import type { Command } from "commander";
import { callOf, examplesOf } from "../../src/cli/options.ts";
import { buildProgram } from "../../src/main/program.ts";

/** The program of a command line that never runs. */
export function programToRead(): Command {
  const { stdin, stdout: output, stderr: screen } = process;
  const ignore = (): void => undefined;
  return buildProgram({ env: {}, input: () => stdin, output, screen, write: ignore, note: ignore, exit: ignore });
}

/** docs/cli.md: every command, read from the program itself. */
export function commandLine(): string {
  const program = programToRead();
  return [
    "<!-- Written by hack/generate.ts from the commands; change them there and run `make generate`. -->",
    "# Command line",
    `${program.description()} In a clone the command is \`bin/berth\`.`,
    "Commands talk to the service at `--server`, else `SVC_URL`, else `http://127.0.0.1:$SVC_PORT` (8080); the token is `SVC_TOKEN`, else what `berth login` keeps for that server. `up`, `serve`, `operator`, `down`, `engine`, `config`, `proxy`, `cluster` and `completion` need no running service: they act on this machine, by the settings in [reference.md](reference.md#settings). `token` and `probe` do so, too, where none runs. `config`, `down` and `uninstall` act on the directories of the service that `--server` or `SVC_URL` names on this machine, and refuse a service of another machine unless `SVC_CONFIG_DIR` or `SVC_STATE_DIR` names directories.",
    "The answer goes to standard output, everything else to standard error. A failure is `code: message` and, below it, what to do. Exit codes: 0 done, 1 failed, 2 the command line is wrong. `-o json` and `-o yaml` print what the API answered; `-o name` prints names alone. Colours need a terminal, and obey `NO_COLOR`.",
    ...leaves(program).map(section),
  ].join("\n\n");
}

function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
}

function section(command: Command): string {
  const words = command.registeredArguments.map((argument) =>
    argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
  );
  const rows = [
    ...command.registeredArguments.map((argument) => [
      argument.required ? argument.name() : `[${argument.name()}]`,
      meaning(argument.description, argument.argChoices, undefined),
    ]),
    ...command.options.map(({ flags, description, argChoices, defaultValue }) => [
      flags,
      meaning(description, argChoices, defaultValue),
    ]),
  ];
  const examples = examplesOf(command).map(([line, about]) => `# ${about}\n${line}`);
  return [
    `## ${callOf(command)}`,
    `\`${[callOf(command), ...words].join(" ")}\`: ${command.description()}.`,
    ...(rows.length === 0 ? [] : [table(rows)]),
    ...(examples.length === 0 ? [] : [`\`\`\`sh\n${examples.join("\n")}\n\`\`\``]),
  ].join("\n\n");
}

function meaning(description: string, choices: readonly string[] | undefined, fallback: unknown): string {
  const notes = [
    ...(choices === undefined ? [] : [`one of ${choices.map((choice) => `\`${choice}\``).join(", ")}`]),
    ...(typeof fallback === "string" || typeof fallback === "number" ? [`default \`${fallback}\``] : []),
  ];
  return notes.length === 0 ? description : `${description} (${notes.join("; ")})`;
}

function table(rows: readonly (readonly string[])[]): string {
  return [["Word", "Meaning"], ["---", "---"], ...rows.map(([word = "", text = ""]) => [`\`${word}\``, text])]
    .map((cells) => `| ${cells.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`)
    .join("\n");
}
