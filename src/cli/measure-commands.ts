import type { Command } from "commander";
import { InvalidArgumentError } from "commander";
import type { CommandContext } from "./context.ts";
import { outputOption, whole, withExamples, type Shown } from "./options.ts";

/** Commands that show the work of slots. */
export function addMeasureCommands(program: Command, context: CommandContext): void {
  const top = program
    .command("top")
    .description("slots with requests, tokens per second and memory, again each second")
    .option("-n, --count <count>", "looks, then end; absent: until Ctrl-C", whole)
    .action(async ({ count = Infinity }: { count?: number }) => {
      const { top: show } = await import("./top.ts");
      await show(context, count);
    });
  withExamples(top, ["berth top", "live"], ["berth top -n 1", "once, over one second"]);
  const bench = program
    .command("bench")
    .description(
      "measure time to the first token and tokens per second of a slot, by concurrency; the slot keeps the result",
    )
    .argument("<slot>", "slot or model")
    .option("--clients <list>", "clients at once, level by level", levels, [1, 2, 4])
    .option("--requests <count>", "requests of each client at each level", oneOrMore, 3)
    .option("--max-tokens <count>", "longest answer, in tokens", oneOrMore, 64)
    .addOption(outputOption())
    .action(async (slot: string, options: Shown & { clients: number[]; requests: number; maxTokens: number }) => {
      const { bench: run } = await import("./bench.ts");
      await run(context, slot, { ...options, levels: options.clients });
    });
  withExamples(
    bench,
    ["berth bench primary", "one, two and four clients"],
    ["berth bench primary --clients 1,8 --requests 10 -o json", "for a program"],
  );
}

function oneOrMore(text: string): number {
  const value = whole(text);
  if (value === 0) throw new InvalidArgumentError("It must be 1 or more.");
  return value;
}

/** `1,2,4`. */
function levels(text: string): number[] {
  const numbers = text.split(",").map(Number);
  if (numbers.length > 32 || numbers.some((each) => !Number.isInteger(each) || each < 1 || each > 256))
    throw new InvalidArgumentError("It must be at most 32 numbers from 1 to 256, such as 1,2,4.");
  return numbers;
}
