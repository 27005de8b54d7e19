import type { Command } from "commander";
import { CommandError } from "../cli/client.ts";
import type { CommandContext } from "../cli/context.ts";
import { outputOption, withExamples, type Shown } from "../cli/options.ts";

/** `berth model check`: whether the sources of the catalogue are what it says. Asks the sources; fetches nothing. */
export function addModelCheckCommand(program: Command, context: CommandContext): void {
  const model = program.commands.find((command) => command.name() === "model");
  const check = model
    ?.command("check")
    .description("ask the publishers' servers whether the files of curated models are as the catalogue says")
    .argument("[refs...]", "models of the catalogue; absent: all")
    .addOption(outputOption())
    .action(async (refs: readonly string[], { output }: Shown) => {
      const { findCatalog } = await import("../program/shipped-catalog.ts");
      const { checkCatalog, checkText } = await import("./catalog-check.ts");
      const rows = await checkCatalog(await findCatalog(), refs, context.env);
      context.write(await checkText(rows, output));
      const wrong = rows.filter(({ verdict }) => verdict !== "ok").length;
      if (wrong > 0) {
        const message = `${wrong} of ${rows.length} files are not as the catalogue says, or could not be asked for`;
        throw new CommandError("check", message, "put a source of your own into models/, which replaces the entry");
      }
    });
  if (check === undefined) return;
  withExamples(
    check,
    ["berth model check", "every source of the catalogue: its size, its checksum, its commit"],
    ["berth model check qwen3-4b -o wide", "one model, with its whole checksum for a manifest"],
  );
}
