import type { Command } from "commander";
import { CommandError, notBerth } from "../cli/client.ts";
import type { CommandContext } from "../cli/context.ts";
import { withExamples } from "../cli/options.ts";
import { isRecord } from "../cli/output.ts";

interface ProbeCommandContext extends CommandContext {
  /** A service was named by `--server` or SVC_URL: its machine is meant, and not this one. */
  readonly isRemote: () => boolean;
}

const formats = ["table", "wide", "json", "yaml"] as const;

/** Seconds to wait for an operator that has been asked. */
const patienceSeconds = 30;

/** `berth probe`: asks the operator by way of the service; where none runs here, this command looks itself. */
export function addProbeCommand(program: Command, context: ProbeCommandContext): void {
  const probe = program
    .command("probe")
    .description("look at the machine's hardware again, and print what was found")
    .addOption(
      program
        .createOption("-o, --output <format>", "form of the output; wide: with evidence")
        .choices([...formats])
        .default("table"),
    )
    .action(async ({ output }: { output: (typeof formats)[number] }) => {
      const { hardwareText } = await import("../cli/hardware.ts");
      const hardware = (await asked(context)) ?? (await looked(context));
      context.write(await hardwareText(hardware, output));
    });
  withExamples(
    probe,
    ["berth probe", "processors, memory, GPUs, drivers, and the backend they suggest"],
    ["berth probe -o wide", "and where each fact comes from"],
    ["berth --server https://box.local probe", "of another machine"],
  );
}

/** What the operator has found; undefined where none runs on this machine. Throws CommandError. */
async function asked(context: ProbeCommandContext): Promise<Readonly<Record<string, unknown>> | undefined> {
  const client = await context.client();
  const path = `/api/hardware/probe?wait=settled&timeout=${patienceSeconds}`;
  try {
    const answer = await client.send("POST", path);
    if (!isRecord(answer) || !("cpu" in answer))
      throw notBerth(`${client.server} answered with something else than hardware`);
    if (answer["pending"] !== true) return answer;
    if (!context.isRemote()) {
      context.note("no operator has answered: this is what this command sees itself, as its own user\n");
      return undefined;
    }
    context.note("no operator has answered: this is what one saw before\n");
    return answer;
  } catch (error) {
    const isAbsent = error instanceof CommandError && ["unreachable", "system.not_found"].includes(error.code);
    if (!isAbsent) throw error;
    if (context.isRemote()) {
      if (error.code === "unreachable") throw error;
      const next = "start an operator there; if one runs, it may be older than this command";
      throw new CommandError(error.code, error.message, next);
    }
    const why = error.code === "unreachable" ? `nothing answers at ${client.server}` : "no operator has looked yet";
    context.note(`${why}: this is what this command sees itself, as its own user\n`);
    return undefined;
  }
}

async function looked({ env }: ProbeCommandContext): Promise<Readonly<Record<string, unknown>>> {
  const { readSettings } = await import("./settings.ts");
  const { become } = await import("./owner.ts");
  const { config } = await readSettings(env, { takeOwner: (owner) => become(owner, env) });
  const { lookOf } = await import("./hardware.ts");
  const { withSuggestions } = await import("../engines/suggestion.ts");
  const look = await lookOf(config);
  return withSuggestions(await look(new AbortController().signal));
}
