import { Argument, type Command } from "commander";
import type { CommandContext } from "../../cli/context.ts";
import { withExamples } from "../../cli/options.ts";

/** The programs whose configuration the command reads. */
const sources = ["llama-swap", "llama-server", "ollama", "lm-studio", "compose"] as const;
export type ImportSource = (typeof sources)[number];

/** `berth config import`, which needs no running service. */
export function addImportCommand(config: Command, { env, input, screen, write, exit }: CommandContext): void {
  const command = config
    .command("import")
    .description(
      "write manifests for the models of another program; shows the difference first, and what is not carried",
    )
    .addArgument(new Argument("<source>", "the other program").choices(sources))
    .argument(
      "[path]",
      "its configuration file, or the directory of its models; for ollama absent: where it keeps them",
    )
    .option("--dir <directory>", "the configuration directory; absent: the one a service would use")
    .option("-y, --yes", "write without asking", false)
    .option("--force", "also replace manifests that a person wrote or changed", false)
    .action(async (source: ImportSource, path: string | undefined, { dir, yes, force }: Options) => {
      if (dir === "") command.error("error: option '--dir' is empty");
      if (path === undefined && source !== "ollama") command.error(`error: name the file or directory of ${source}`);
      const { importConfig } = await import("./import.ts");
      const agrees = async (question: string): Promise<boolean> => {
        if (yes || input().isTTY !== true) return yes;
        const { confirm } = await import("../../cli/terminal.ts");
        return await confirm(question, input(), screen);
      };
      if (!(await importConfig({ env, source, path, dir, force, write, agrees }))) exit(1);
    });
  withExamples(
    command,
    ["berth config import llama-swap /etc/llama-swap/config.yaml", "shows the manifests, and asks"],
    ["berth config import ollama --yes", "uses Ollama's files where they lie"],
    ["berth config import llama-server models.ini", "the presets of llama-server's router"],
    ["berth config import lm-studio ~/.lmstudio", "models and their settings"],
    ["berth config import compose compose.yaml --dir .", "into another configuration directory"],
  );
}

interface Options {
  readonly dir?: string;
  readonly yes: boolean;
  readonly force: boolean;
}
