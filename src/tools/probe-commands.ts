import type { Command } from "commander";
import type { Hardware } from "../api/hardware.ts";
import { CommandError } from "../cli/client.ts";
import type { CommandContext } from "../cli/context.ts";
import { withExamples } from "../cli/options.ts";
import type { Received } from "../cli/received.ts";

interface ProbeCommandContext extends CommandContext {
  /** A service was named by `--server` or SVC_URL: its machine is probed, and not this one. */
  readonly isRemote: () => boolean;
}

const formats = ["table", "wide", "json", "yaml"] as const;

/** Seconds to wait for the operator's answer. */
const waitSeconds = 30;

/**
 * `berth probe`: requests a probe from the operator through the service; where none runs here, this command probes the
 * machine itself.
 */
export function addProbeCommand(program: Command, context: ProbeCommandContext): void {
  const probe = program
    .command("probe")
    .description("probe the machine's hardware again, and print the result")
    .addOption(
      program
        .createOption("-o, --output <format>", "form of the output; wide: with evidence")
        .choices([...formats])
        .default("table"),
    )
    .action(async ({ output }: { output: (typeof formats)[number] }) => {
      const { hardwareText } = await import("../cli/hardware.ts");
      const hardware = (await probeOfOperator(context)) ?? (await ownProbe(context));
      context.write(await hardwareText(hardware, output));
    });
  withExamples(
    probe,
    ["berth probe", "processors, memory, GPUs, drivers, and the backend they suggest"],
    ["berth probe -o wide", "with the source of each fact"],
    ["berth --server https://box.local probe", "of another machine"],
  );
}

/** The operator's result; undefined where none runs on this machine. Throws CommandError. */
async function probeOfOperator(context: ProbeCommandContext): Promise<Received<Hardware> | undefined> {
  const client = await context.client();
  try {
    const query = { wait: "settled", timeout: waitSeconds } as const;
    const answer = await client.one("POST /api/hardware/probe", "cpu", { query });
    if (answer.pending !== true) return answer;
    if (!context.isRemote()) {
      context.note("no operator has answered: this is the command's own probe, as its own user\n");
      return undefined;
    }
    context.note("no operator has answered: this is an earlier operator's result\n");
    return answer;
  } catch (error) {
    const isAbsent = error instanceof CommandError && ["unreachable", "system.not_found"].includes(error.code);
    if (!isAbsent) throw error;
    if (context.isRemote()) {
      if (error.code === "unreachable") throw error;
      const next = "start an operator there; if one runs, it may be older than this command";
      throw new CommandError(error.code, error.message, next);
    }
    const why =
      error.code === "unreachable" ? `nothing answers at ${client.server}` : "no operator has probed this machine yet";
    context.note(`${why}: this is the command's own probe, as its own user\n`);
    return undefined;
  }
}

async function ownProbe({ env }: ProbeCommandContext): Promise<Hardware> {
  const { readSettings } = await import("../program/settings.ts");
  const { become } = await import("../program/owner.ts");
  const { config } = await readSettings(env, { takeOwner: (owner) => become(owner, env) });
  const { hardwareProbe } = await import("../program/hardware.ts");
  const { withSuggestions } = await import("../engines/suggestion.ts");
  const probe = await hardwareProbe(config);
  return withSuggestions(await probe(new AbortController().signal));
}
