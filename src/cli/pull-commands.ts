import type { Command } from "commander";
import type { CommandContext } from "./context.ts";
import { outputOption, withExamples, type Shown } from "./options.ts";

/** `berth pull`: models that are being fetched. */
export function addPullCommands(program: Command, context: CommandContext): void {
  const pull = program.command("pull").description("the models that are being fetched; `berth model pull` fetches one");
  const list = pull
    .command("list")
    .description("running pulls, and those that ended lately")
    .addOption(outputOption())
    .action(async ({ output }: Shown) => {
      const { pullTable } = await import("./pulls.ts");
      context.write(await pullTable(await context.client(), output));
    });
  withExamples(list, ["berth pull list -o wide", "with sources and errors"]);
  const change = (
    name: "pause" | "resume" | "cancel",
    description: string,
    example: readonly [line: string, meaning: string],
  ): void => {
    const command = pull
      .command(name)
      .description(description)
      .argument("<pull>", "its id, or the model that it fetches")
      .action(async (what: string) => {
        const { changePull } = await import("./pulls.ts");
        context.write(await changePull(await context.client(), what, name));
      });
    withExamples(command, example);
  };
  change("pause", "pause a pull; what has come stays", [
    "berth pull pause qwen3-4b",
    "until `berth pull resume qwen3-4b`",
  ]);
  change("resume", "go on with a paused pull, or try a failed one again now", [
    "berth pull resume qwen3-4b",
    "goes on where it was paused",
  ]);
  change("cancel", "end a pull, and delete what has come unless somebody else wants it", [
    "berth pull cancel qwen3-4b",
    "a pull that a slot needs can be paused only",
  ]);
}
