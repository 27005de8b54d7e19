import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { Client } from "../cli/client.ts";
import { addApiCommands } from "../cli/commands.ts";
import type { CommandTree, Shell } from "../cli/completion.ts";
import type { CommandContext } from "../cli/context.ts";
import { callOf, withExamples } from "../cli/options.ts";
import { addConfigCommands } from "../tools/config/config-commands.ts";
import { addClusterCommands } from "../tools/cluster/cluster-commands.ts";
import { addDoctorCommand } from "../tools/doctor/doctor-commands.ts";
import { addInstallationCommands } from "../tools/install/installation-commands.ts";
import { addProbeCommand } from "../tools/probe-commands.ts";
import { addModelCheckCommand } from "../tools/model-check-commands.ts";
import { addProxyCommands } from "../tools/proxy/proxy-commands.ts";
import { addUpdateCommand } from "../tools/release/update-commands.ts";
import { addRunCommands } from "./run-commands.ts";
import { addTokenCommands } from "../tools/token-commands.ts";
import { usageText } from "./usage-hints.ts";
import { isRelease } from "../program/release.ts";
import { version } from "../program/version.ts";

/** The parts of the process that the program needs; `docs/cli.md` is generated from a program that never runs. */
export type ProgramContext = Omit<CommandContext, "client">;

/** Commands that act on files of this machine, and are not the service itself. */
const localCommands: ReadonlySet<string> = new Set([
  "config",
  "doctor",
  "down",
  "engine",
  "probe",
  "proxy",
  "token",
  "uninstall",
]);

/** They read the settings of an installation themselves. */
const commandsOfInstallation: ReadonlySet<string> = new Set(["install", "update", "uninstall"]);
const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** Local commands that change or check the files of the service itself, which a named service may have elsewhere. */
const commandsOnFiles: ReadonlySet<string> = new Set(["config", "down", "uninstall"]);

/** Every command of `berth`. Parsing throws CommanderError for a wrong command line; commands throw CommandError. */
export function buildProgram(process: ProgramContext): Command {
  const program = new Command("berth")
    .description("Keeps local AI models running as declared, and serves them through one OpenAI-style API.")
    .version(version)
    .option("--server <url>", "address of the service (SVC_URL)");
  const context: CommandContext = { ...process, client: () => clientOf(program, process.env) };
  addRunCommands(program, context);
  addApiCommands(program, context);
  addConfigCommands(program, context);
  addProxyCommands(program, context);
  const isRemote = (): boolean => serverOf(program, process.env) !== undefined;
  addModelCheckCommand(program, context);
  addProbeCommand(program, { ...context, isRemote });
  addDoctorCommand(program, context);
  addTokenCommands(program, { ...context, isRemote });
  addInstallationCommands(program, context);
  addUpdateCommand(program, context);
  addClusterCommands(program, context);
  withExamples(
    program,
    ["berth up", "run everything here, until Ctrl-C"],
    ["berth status", "whether it runs, and the loaded slots"],
    ['berth chat primary "hello"', "one answer of the slot primary"],
    ["berth help slot swap", "the options of a command, with examples"],
  );
  addHelp(program);
  program.hook("preAction", async (_program, action) => {
    refuseEmpty(action);
    const name = callOf(action).split(" ")[1] ?? "";
    if (isRelease(root) && !commandsOfInstallation.has(name)) {
      const { takeInstalledSettings } = await import("../tools/install/installed-settings.ts");
      await takeInstalledSettings(root, process.env);
    }
    const server = serverOf(program, process.env);
    // The others reach a named service by its API, or are about this machine alone.
    if (!localCommands.has(name) || (server !== undefined && !commandsOnFiles.has(name))) return;
    const hasDirectory = action.registeredArguments[0]?.name() === "directory" && action.args.length > 0;
    const { followRunning } = await import("../program/running.ts");
    await followRunning(process.env, { note: process.note, ...(hasDirectory ? {} : { server }) });
  });
  const completion = program
    .command("completion")
    .description("a completion script for a shell")
    .addArgument(program.createArgument("<shell>", "which shell").choices(["bash", "zsh", "fish"]))
    .action(async (shell: Shell) => {
      const { completionScript } = await import("../cli/completion.ts");
      process.write(await completionScript(shell, treeOf(program)));
    });
  withExamples(
    completion,
    ["source <(berth completion bash)", "in ~/.bashrc"],
    ["source <(berth completion zsh)", "in ~/.zshrc, after compinit"],
    ["berth completion fish >~/.config/fish/completions/berth.fish", "once"],
  );
  for (const command of everyCommand(program)) {
    command
      .exitOverride()
      .showHelpAfterError(`see \`${callOf(command)} --help\``)
      .configureOutput({
        writeOut: process.write,
        writeErr: process.note,
        outputError: (text, write) => write(usageText(text, callOf(command))),
      });
  }
  return program;
}

/** `berth help slot list` supports every depth of commands, and refuses unknown names. */
function addHelp(program: Command): void {
  const help = program
    .helpCommand(false)
    .command("help")
    .description("how a command is called")
    .argument("[command...]", "its words")
    .action((words: readonly string[]) => {
      let named = program;
      for (const word of words) {
        const next = named.commands.find((each) => each.name() === word);
        if (next === undefined) program.error(`error: unknown command '${[...words].join(" ")}'`);
        named = next;
      }
      named.outputHelp();
    });
  withExamples(help, ["berth help slot swap", "the same as `berth slot swap --help`"]);
}

/** An empty variable in a script means no slot, not all of them, and no directory rather than the present one. */
function refuseEmpty(command: Command): void {
  const names: readonly string[] = ["slot", "ref", "model", "id", "directory", "path"];
  for (const [index, argument] of command.registeredArguments.entries()) {
    if (names.includes(argument.name()) && command.args[index] === "")
      command.error(`error: argument '${argument.name()}' is empty`);
  }
}

/** The given service; undefined: the service of this machine. */
function serverOf(program: Command, env: NodeJS.ProcessEnv): string | undefined {
  const { server } = program.opts<{ server?: string }>();
  return server ?? (env["SVC_URL"] || undefined);
}

async function clientOf(program: Command, env: NodeJS.ProcessEnv): Promise<Client> {
  const server = serverOf(program, env) ?? `http://127.0.0.1:${env["SVC_PORT"] || "8080"}`;
  const { savedToken } = await import("../cli/credentials.ts");
  return new Client({ server, token: env["SVC_TOKEN"]?.trim() || (await savedToken(env, server)) });
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

function treeOf(command: Command): CommandTree {
  return {
    name: command.name(),
    description: command.description(),
    options: command.options.map(({ long, short, description, required, optional, argChoices }) => ({
      long: long ?? undefined,
      short: short ?? undefined,
      description,
      takesValue: required || optional,
      choices: argChoices ?? [],
    })),
    arguments: command.registeredArguments.map((argument) => ({
      name: argument.name(),
      choices: argument.argChoices ?? [],
    })),
    children: command.commands.map(treeOf),
  };
}
