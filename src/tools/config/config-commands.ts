import type { Command } from "commander";
import type { CommandContext } from "../../cli/context.ts";
import { outputOption, withExamples, type Shown } from "../../cli/options.ts";
import { addImportCommand } from "../import/import-commands.ts";

/** The commands about the configuration of this machine; none needs a running service. */
export function addConfigCommands(program: Command, context: CommandContext): void {
  const { env, input, screen, write, note, exit } = context;
  const config = program.command("config").description("the configuration of this machine");
  const show = config
    .command("show")
    .description("the settings in force here, with the source of each value")
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
      const { configDirOf, configWarnings, unfitSlots, validateConfig } = await import("./config.ts");
      const checked = directory ?? configDirOf(env);
      // A given directory may lie anywhere, as in a job of a pipeline: no program of it is run.
      if (directory === undefined) {
        const { takeConfigDir } = await import("../../program/settings.ts");
        await takeConfigDir(env, checked);
      }
      const found = await validateConfig(checked, directory !== undefined);
      const problems = directory === undefined && found.length === 0 ? await unfitSlots(env, checked) : found;
      for (const warning of await configWarnings(checked)) note(`${warning}\n`);
      write(problems.length === 0 ? `${checked}: valid\n` : problems.map((line) => `${line}\n`).join(""));
      if (problems.length > 0) exit(1);
    });
  withExamples(
    validate,
    ["berth config validate", "the directory in use"],
    ["berth config validate .", "in a Git hook: exits 1 with file:line:column lines"],
  );
  const edit = config
    .command("edit")
    .description("open a file in $EDITOR, and save it only when it is valid")
    .argument("[what]", "a slot's name, or a file of the configuration directory", "berth.toml")
    .action(async (what: string) => {
      const { editConfig } = await import("./config-edit.ts");
      const { confirm } = await import("../../cli/terminal.ts");
      const again = async (): Promise<boolean> =>
        input().isTTY === true && (await confirm("Edit it again?", input(), screen));
      write(await editConfig({ env, what, note, again }));
    });
  withExamples(
    edit,
    ["berth config edit", "the settings: berth.toml"],
    ["berth config edit primary", "the manifest of a slot, or a new one"],
    ["EDITOR='code --wait' berth config edit upstreams/openai.yaml", "with another editor"],
  );
  const migrate = config
    .command("migrate")
    .description("bring configuration files to this version's spelling; shows the difference and keeps a backup")
    .argument("[directory]", "the directory; absent: the one a service would use")
    .option("--check", "only show it; exits 1 where something would change", false)
    .action(async (directory: string | undefined, { check }: { check: boolean }) => {
      const { configDirOf } = await import("./config.ts");
      const { migrateConfig } = await import("./config-migrate.ts");
      const { stateDirOf, takeConfigDir } = await import("../../program/settings.ts");
      const configDir = directory ?? configDirOf(env);
      const stateDir = await stateDirOf(env, configDir);
      await takeConfigDir(env, configDir);
      const { text, count } = await migrateConfig(configDir, { isCheck: check, now: new Date(), stateDir });
      write(text);
      if (check && count > 0) exit(1);
    });
  withExamples(
    migrate,
    ["berth config migrate --check", "the differences only"],
    ["berth config migrate", "TOML keys to snake_case, YAML keys to camelCase; comments stay"],
  );
  addImportCommand(config, context);
}
