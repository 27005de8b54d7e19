import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { Client, CommandError } from "../cli/client.ts";
import { formats, type Format } from "../cli/output.ts";
import type { CommandTree, Shell } from "../cli/completion.ts";
import { version } from "./version.ts";

const env = process.env;
const write = (text: string): void => void process.stdout.write(text);

interface Shown {
  readonly output: Format;
  readonly watch?: true;
}

/** Exit codes: 0 done, 1 failed, 2 usage. */
process.exitCode = await run(process.argv);
// The channel to `berth up` would keep a part that could not start alive, and `up` waiting for its end.
if (process.connected) process.disconnect();

async function run(argv: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = build((code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync([...argv]);
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof CommandError) {
      process.stderr.write(`${error.code}: ${error.message}\n${error.next === undefined ? "" : `${error.next}\n`}`);
      return 1;
    }
    if (error instanceof Error && error.name === "SettingsError") {
      process.stderr.write(
        `${error.message
          .split("\n")
          .map((line) => `config.invalid: ${line}`)
          .join("\n")}\n`,
      );
      return 1;
    }
    if (error instanceof Error && "code" in error && error.code === "EPIPE") return 0;
    throw error;
  }
}

function build(exit: (code: number) => void): Command {
  const program = new Command("berth")
    .description("Keeps local AI models running as declared, and serves them through one OpenAI-style API.")
    .version(version)
    .option("--server <url>", "address of the service (SVC_URL)")
    .exitOverride()
    .showHelpAfterError("(--help shows what there is)");
  const client = (): Client => {
    const { server } = program.opts<{ server?: string }>();
    return new Client({
      server: server ?? env["SVC_URL"] ?? `http://127.0.0.1:${env["SVC_PORT"] || "8080"}`,
      token: env["SVC_TOKEN"],
    });
  };
  // A factory: commander keeps an option's state, so no two commands share one.
  const output = (): Option =>
    new Option("-o, --output <format>", "form of the output").choices([...formats]).default("table");

  program
    .command("up")
    .description("run operator and gateway; stops every engine when it is stopped")
    .action(async () => {
      const { up } = await import("./up.ts");
      exit(await up({ env }));
    });
  program
    .command("serve")
    .description("run the gateway")
    .option("--host <address>", "address to listen on (SVC_HOST)")
    .option("--port <port>", "port to listen on (SVC_PORT)", whole)
    .action(async (options: { host?: string; port?: number }) => {
      const { serve } = await import("./serve.ts");
      exit(await serve({ env, ...options }));
    });
  program
    .command("operator")
    .description("run the operator; engines keep running when it is stopped")
    .option("--paused", "plan without acting", false)
    .option("--stop-engines", "end every engine when stopped", false)
    .action(async ({ paused, stopEngines }: { paused: boolean; stopEngines: boolean }) => {
      const { operator } = await import("./operator.ts");
      exit(await operator({ env, paused, stopsEngines: stopEngines }));
    });
  program
    .command("down")
    .description("stop every engine of this instance")
    .action(async () => {
      const { down } = await import("./down.ts");
      exit(await down({ env }));
    });
  program
    .command("status")
    .description("the service and its slots at a glance")
    .addOption(output())
    .option("--watch", "show changes as they come")
    .action(async ({ output: format, watch }: Shown) => {
      const { statusText } = await import("../cli/status.ts");
      await shown(() => statusText(client(), format), watch);
    });
  program
    .command("chat")
    .description("send one message and print the answer as it comes")
    .argument("<slot>", "slot or model")
    .argument("<message>")
    .option("--max-tokens <count>", "longest answer", whole)
    .action(async (slot: string, message: string, options: { maxTokens?: number }) => {
      const { chat } = await import("../cli/chat.ts");
      for await (const piece of chat(client(), slot, message, options.maxTokens)) write(piece);
      write("\n");
    });

  const slot = program.command("slot").description("what slots do and will do");
  slot
    .command("list")
    .description("all slots")
    .addOption(output())
    .option("--watch", "show changes as they come")
    .action(async ({ output: format, watch }: Shown) => {
      const { slotTable } = await import("../cli/slots.ts");
      await shown(() => slotTable(client(), format), watch);
    });
  slot
    .command("show")
    .description("one slot with its conditions and its last moves")
    .argument("<name>")
    .addOption(output())
    .option("--watch", "show changes as they come")
    .action(async (name: string, { output: format, watch }: Shown) => {
      const { slotShow } = await import("../cli/slots.ts");
      await shown(() => slotShow(client(), name, format), watch);
    });
  slot
    .command("plan")
    .description("what the operator does next with a slot, and why")
    .argument("<name>")
    .addOption(output())
    .action(async (name: string, { output: format }: Shown) => {
      const { slotPlan } = await import("../cli/slots.ts");
      write(await slotPlan(client(), name, format));
    });
  slot
    .command("logs")
    .description("what a slot's engine has printed")
    .argument("<name>")
    .option("--tail <lines>", "how many of the last lines, 1 to 5000", whole, 200)
    .option("-f, --follow", "go on with new lines", false)
    .action(async (name: string, options: { tail: number; follow: boolean }) => {
      const { slotLogs } = await import("../cli/slots.ts");
      for await (const text of slotLogs(client(), name, options)) write(text);
    });

  const model = program.command("model").description("what models there are");
  model
    .command("list")
    .description("all models of the registry")
    .addOption(output())
    .action(async ({ output: format }: Shown) => {
      const { modelTable } = await import("../cli/models.ts");
      write(await modelTable(client(), format));
    });
  model
    .command("show")
    .description("one model")
    .argument("<ref>")
    .addOption(output())
    .action(async (ref: string, { output: format }: Shown) => {
      const { modelShow } = await import("../cli/models.ts");
      write(await modelShow(client(), ref, format));
    });

  const config = program.command("config").description("the configuration");
  config
    .command("show")
    .description("what is in force here and where each value comes from")
    .addOption(output())
    .action(async ({ output: format }: Shown) => {
      const { showConfig } = await import("./config.ts");
      const { cell, render, renderOne } = await import("../cli/output.ts");
      const settings = await showConfig(env);
      if (format === "json" || format === "yaml") {
        write(await renderOne(settings, format));
        return;
      }
      const rows = Object.entries(settings).map(([name, setting]) => ({ name, ...setting }));
      const columns = [
        { title: "SETTING", value: (row: Readonly<Record<string, unknown>>) => cell(row["environment"]) },
        { title: "VALUE", value: (row: Readonly<Record<string, unknown>>) => cell(row["value"]) },
        { title: "FROM", value: (row: Readonly<Record<string, unknown>>) => cell(row["origin"]) },
      ];
      write(await render(rows, columns, format, "environment"));
    });
  config
    .command("validate")
    .description("check a configuration directory without a running service")
    .argument("[directory]", "the directory; absent: the one a service would use")
    .action(async (directory: string | undefined) => {
      const { configDirOf, validateConfig } = await import("./config.ts");
      const checked = directory ?? configDirOf(env);
      const problems = await validateConfig(checked);
      write(problems.length === 0 ? `${checked}: valid\n` : problems.map((line) => `${line}\n`).join(""));
      if (problems.length > 0) exit(1);
    });

  const engine = program.command("engine").description("engines of this machine");
  engine
    .command("install")
    .description("install the embedded engine")
    .addArgument(program.createArgument("<engine>", "which engine").choices(["embedded"]))
    .action(async () => {
      const { installEmbedded } = await import("./engine-install.ts");
      const { readSettings } = await import("./settings.ts");
      const { config: settings } = await readSettings(env);
      exit(await installEmbedded({ stateDir: settings.stateDir, onLine: (line) => write(`${line}\n`) }));
    });

  program
    .command("completion")
    .description("a completion script for a shell")
    .addArgument(program.createArgument("<shell>", "which shell").choices(["bash", "zsh", "fish"]))
    .action(async (shell: Shell) => {
      const { completionScript } = await import("../cli/completion.ts");
      write(completionScript(shell, treeOf(program)));
    });
  for (const command of everyCommand(program)) command.exitOverride();
  return program;
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

function treeOf(command: Command): CommandTree {
  return {
    name: command.name(),
    description: command.description(),
    options: command.options.map(({ flags }) => flags),
    children: command.commands.map(treeOf),
  };
}

function whole(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError("It must be a whole number.");
  return value;
}

/** Once, or again with every change until interrupted. */
async function shown(text: () => Promise<string>, isWatching: true | undefined): Promise<void> {
  let last = await text();
  write(last);
  while (isWatching === true) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    const next = await text();
    if (next === last) continue;
    last = next;
    write(process.stdout.isTTY ? `\u001B[2J\u001B[H${next}` : `\n${next}`);
  }
}
