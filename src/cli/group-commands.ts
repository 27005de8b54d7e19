import { InvalidArgumentError, type Command } from "commander";
import { longestLoanSeconds } from "../api/longest-loan.ts";
import type { CommandContext } from "./context.ts";
import { outputOption, withExamples, type Shown } from "./options.ts";

/** Reads `90s`, `30m`, `2h`, `1d`, or several of them as in `1h30m`; anything else, and more than a loan may last, is a usage error. */
function seconds(text: string): number {
  const [, days = 0, hours = 0, minutes = 0, rest = 0] =
    /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text) ?? [];
  const sum = Number(days) * 86_400 + Number(hours) * 3600 + Number(minutes) * 60 + Number(rest);
  if (sum < 1 || !Number.isSafeInteger(sum))
    throw new InvalidArgumentError("It must be a time such as 30m, 2h or 1h30m.");
  if (sum > longestLoanSeconds)
    throw new InvalidArgumentError(`It must be at most ${longestLoanSeconds / 86_400}d; lend again to go on.`);
  return sum;
}

/** `berth group` and `berth lend`: slots that share a budget. */
export function addGroupCommands(program: Command, context: CommandContext): void {
  const group = program.command("group").description("groups of slots that share memory");
  const list = group
    .command("list")
    .description("all groups")
    .addOption(outputOption())
    .action(async ({ output }: Shown) => {
      const { groupTable } = await import("./groups.ts");
      context.write(await groupTable(await context.client(), output));
    });
  withExamples(list, ["berth group list", "what each group shares, who is loaded, and who waits"]);
  const show = group
    .command("show")
    .description("one group: who holds how much, and who waits for what")
    .argument("<group>", "the group")
    .addOption(outputOption())
    .action(async (name: string, { output }: Shown) => {
      const { groupShow } = await import("./groups.ts");
      context.write(await groupShow(await context.client(), name, output));
    });
  withExamples(show, ["berth group show gpu", "its budget and its slots"]);
  const lend = program
    .command("lend")
    .description("have the slots of a group leave for a time, as for a game: none of them is loaded until it ends")
    .argument("[time]", "how long: 30m, 2h, 1d", seconds)
    .option("--group <group>", "the group; absent: all")
    .option("--end", "end it now")
    .action(async (time: number | undefined, { group: name, end }: { group?: string; end?: true }) => {
      if ((time === undefined) === (end === undefined)) lend.error("error: give a time, such as 2h, or --end");
      const { lendGroups } = await import("./groups.ts");
      context.write(await lendGroups(await context.client(), name, time));
    });
  withExamples(
    lend,
    ["berth lend 2h", "every group's memory is free once running requests have ended"],
    ["berth lend 30m --group gpu", "of one group"],
    ["berth lend --end", "slots are loaded again when they are asked for"],
  );
}
