import type { Command } from "commander";
import type { CommandContext } from "./context.ts";
import { outputOption, watchOption, whole, withExamples, type Shown } from "./options.ts";
import { addSlotChangeCommands } from "./slot-change-commands.ts";
import { show } from "./watch.ts";

/** `berth slot`: state, plan and logs of slots. */
export function addSlotCommands(program: Command, context: CommandContext): void {
  const slot = program.command("slot").description("state, plan and logs of slots");
  const list = slot
    .command("list")
    .description("all slots")
    .addOption(outputOption())
    .option(...watchOption)
    .action(async ({ output, watch }: Shown) => {
      const { slotTable } = await import("./slots.ts");
      await show(context, (client) => slotTable(client, output), watch === true);
    });
  withExamples(
    list,
    ["berth slot list", "state, model and port of each"],
    ["berth slot list -o wide --watch", "more columns, again with every change"],
    ["berth slot list -o json", "for a script"],
  );
  const one = slot
    .command("show")
    .description("one slot with its conditions and its last moves")
    .argument("<slot>", "name of the slot")
    .addOption(outputOption())
    .option(...watchOption)
    .action(async (name: string, { output, watch }: Shown) => {
      const { slotShow } = await import("./slots.ts");
      await show(context, (client) => slotShow(client, name, output), watch === true);
    });
  withExamples(one, ["berth slot show primary", "why it is in the state it is in"]);
  const plan = slot
    .command("plan")
    .description("the operator's next steps for a slot, with reasons")
    .argument("<slot>", "name of the slot")
    .addOption(outputOption())
    .action(async (name: string, { output }: Shown) => {
      const { slotPlan } = await import("./slots.ts");
      context.write(await slotPlan(await context.client(), name, output));
    });
  withExamples(
    plan,
    ["berth slot plan primary", "the steps with their reasons"],
    ["berth slot plan primary -o yaml", "as data"],
  );
  const logs = slot
    .command("logs")
    .description("the log of a slot's engine")
    .argument("<slot>", "name of the slot")
    .option("--tail <lines>", "how many of the last lines, 1 to 5000", whole, 200)
    .option("-f, --follow", "go on with new lines, until interrupted", false)
    .option("-t, --timestamps", "the time of each line before it", false)
    .action(async (name: string, options: { tail: number; follow: boolean; timestamps: boolean }) => {
      const { slotLogs } = await import("./slots.ts");
      const onEmpty = (reason: string): void => context.note(`${reason}\n`);
      for await (const text of slotLogs(await context.client(), name, options, onEmpty)) context.write(text);
    });
  withExamples(
    logs,
    ["berth slot logs primary --tail 20", "the last twenty lines"],
    ["berth slot logs primary -f", "and whatever comes"],
  );
  addSlotChangeCommands(slot, context);
}
