import type { Command } from "commander";
import type { CommandContext } from "../cli/context.ts";
import { outputOption, withExamples, type Shown } from "../cli/options.ts";

/** The commands about the configuration of this machine; none needs a running service. */
export function addConfigCommands(program: Command, { env, write, exit }: CommandContext): void {
  const config = program.command("config").description("the configuration of this machine");
  const show = config
    .command("show")
    .description("what is in force here and where each value comes from")
    .addOption(outputOption())
    .action(async ({ output }: Shown) => {
      const { configText } = await import("./config.ts");
      write(await configText(env, output));
    });
  withExamples(show, ["berth config show", "every setting with its origin; secrets are masked"]);
  const validate = config
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
  withExamples(
    validate,
    ["berth config validate", "the directory in use"],
    ["berth config validate .", "in a Git hook: exits 1 with file:line:column lines"],
  );
}
