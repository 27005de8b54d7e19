import type { Command } from "commander";
import type { CommandContext } from "./context.ts";
import { addModelChangeCommands } from "./model-change-commands.ts";
import { outputOption, withExamples, type Shown } from "./options.ts";

/** `berth model`: the registry and the catalogue. */
export function addModelCommands(program: Command, context: CommandContext): void {
  const model = program.command("model").description("the models of this service");
  const list = model
    .command("list")
    .description("all models of the registry")
    .addOption(outputOption())
    .action(async ({ output }: Shown) => {
      const { modelTable } = await import("./models.ts");
      context.write(await modelTable(await context.client(), output));
    });
  withExamples(list, ["berth model list -o wide", "with quantization, context length and source"]);
  const one = model
    .command("show")
    .description("one model")
    .argument("<ref>", "the model")
    .addOption(outputOption())
    .action(async (ref: string, { output }: Shown) => {
      const { modelShow } = await import("./models.ts");
      context.write(await modelShow(await context.client(), ref, output));
    });
  withExamples(one, ["berth model show qwen3-4b", "its file, size, context length, and the slots that hold it"]);
  addModelChangeCommands(model, context);
}
