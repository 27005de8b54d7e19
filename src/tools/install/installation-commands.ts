import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { CommandError } from "../../cli/client.ts";
import type { CommandContext } from "../../cli/context.ts";
import { withExamples } from "../../cli/options.ts";
import { version } from "../../program/version.ts";

interface Update {
  readonly channel: "stable" | "nightly";
  readonly check: boolean;
  readonly rollback: boolean;
}

interface Uninstall {
  readonly yes: boolean;
  readonly force: boolean;
  readonly keepData: boolean;
  readonly models: boolean;
  readonly config: boolean;
  readonly dev: boolean;
}

/** The word in a form that a person can paste. */
function shellWord(word: string): string {
  return /^[\w./@:+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** `berth update` and `berth uninstall`: the program itself and its files on this machine. */
export function addInstallationCommands(program: Command, { env, write }: CommandContext): void {
  const root = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
  const update = program
    .command("update")
    .description("say how this installation is updated; this version cannot do it itself")
    .addOption(
      program
        .createOption("--channel <channel>", "which releases")
        .choices(["stable", "nightly"])
        .default("stable")
        .hideHelp(),
    )
    .option("--check", "how to look whether there is a newer one", false)
    .option("--rollback", "how to go back", false)
    .action(async ({ channel, check, rollback }: Update) => {
      const { isClone } = await import("../../program/clone.ts");
      const what = check ? "look for releases" : rollback ? "go back to a release" : "update itself";
      const message = `${version} cannot ${what}: nothing is published on the channel ${channel} yet`;
      const clone = rollback ? "git checkout COMMIT" : check ? "git fetch && git log ..@{u}" : "git pull --ff-only";
      const done = check ? "" : " && make setup; then start Berth again";
      const pack = rollback ? "npm install -g berth@VERSION" : check ? "npm view berth version" : "npm update -g berth";
      throw new CommandError(
        "system.not_implemented",
        message,
        isClone(root) ? `cd ${shellWord(root)} && ${clone}${done}` : pack,
      );
    });
  withExamples(update, ["berth update", "what to do instead, for a clone or a package"]);
  const uninstall = program
    .command("uninstall")
    .description("stop every engine and remove Berth's files on this machine; lists them first, and requires --yes")
    .option("-y, --yes", "do it", false)
    .option("--force", "the same as --yes", false)
    .option("--keep-data", "leave tokens and found digests", false)
    .option("--models", "remove the model files too, and whatever else lies in their directory", false)
    .option("--config", "remove the manifests and berth.toml too", false)
    .option("--dev", "in a clone: what `make setup` has installed too", false)
    .action(async ({ yes, force, keepData, models, config, dev }: Uninstall) => {
      const { uninstall: run } = await import("./uninstall.ts");
      await run({
        env,
        root,
        isConfirmed: yes || force,
        keepsData: keepData,
        removesModels: models,
        removesConfig: config,
        isDev: dev,
        write,
      });
    });
  withExamples(
    uninstall,
    ["berth uninstall", "the files to remove, with sizes, and those to leave"],
    ["berth uninstall --yes --keep-data", "all but tokens, models and your manifests"],
  );
}
