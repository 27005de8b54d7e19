import type { Command } from "commander";
import type { CommandContext } from "./context.ts";
import { outputOption, withExamples, type Shown } from "./options.ts";

/** `berth upstream`: external providers. */
export function addUpstreamCommands(program: Command, context: CommandContext): void {
  const upstream = program.command("upstream").description("external providers and how they are");
  const list = upstream
    .command("list")
    .description("all providers")
    .addOption(outputOption())
    .action(async ({ output }: Shown) => {
      const { upstreamTable } = await import("./upstreams.ts");
      context.write(await upstreamTable(await context.client(), output));
    });
  withExamples(list, ["berth upstream list -o wide", "with addresses and failures"]);
  const one = upstream
    .command("show")
    .description("one provider")
    .argument("<upstream>", "the provider")
    .addOption(outputOption())
    .action(async (name: string, { output }: Shown) => {
      const { upstreamShow } = await import("./upstreams.ts");
      context.write(await upstreamShow(await context.client(), name, output));
    });
  withExamples(one, ["berth upstream show acme", "its address, where its key is from, its models"]);
  const check = upstream
    .command("check")
    .description("ask a provider for its models, or each of them: exit code 1 where one does not answer well")
    .argument("[upstream]", "the provider; absent: all")
    .action(async (name: string | undefined) => {
      const { upstreamChecks } = await import("./upstreams.ts");
      const { text, isOk } = await upstreamChecks(await context.client(), name);
      context.write(text);
      if (!isOk) context.exit(1);
    });
  withExamples(
    check,
    ["berth upstream check acme", "whether it answers and accepts our key"],
    ["berth upstream check", "all of them"],
  );
}
