import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import type { ReleaseChannel } from "../../api/release.ts";
import { CommandError } from "../../cli/client.ts";
import type { CommandContext } from "../../cli/context.ts";
import { whole, withExamples } from "../../cli/options.ts";
import { renderOne } from "../../cli/output.ts";
import { version } from "../../program/version.ts";

interface Update {
  readonly channel: ReleaseChannel;
  readonly check: boolean;
  readonly rollback: boolean;
  readonly from?: string;
  readonly timeout: number;
  readonly output: "table" | "json";
}

/** `berth update`: another release in the place of this one, and back. */
export function addUpdateCommand(program: Command, context: CommandContext): void {
  const update = program
    .command("update")
    .description(
      "install a newer release, and restart the services without losing a request; goes back by itself if it fails",
    )
    .addOption(
      program
        .createOption("--channel <channel>", "which releases")
        .choices(["stable", "nightly"] satisfies readonly ReleaseChannel[])
        .default("stable"),
    )
    .option("--check", "only say whether there is a newer one", false)
    .option("--rollback", "go back to the release before", false)
    .option("--from <file|url>", "a release's archive, or an index of releases")
    .option("--timeout <seconds>", "time in which each service of the new release must be ready", whole, 120)
    .addOption(
      program
        .createOption("-o, --output <format>", "form of the output of --check")
        .choices(["table", "json"])
        .default("table"),
    )
    .action(async (options: Update) => {
      const root = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
      await run(root, options, context);
    });
  withExamples(
    update,
    ["berth update --check", "whether there is a newer release; changes nothing"],
    ["sudo berth update", "the newest stable release, for an installation by root"],
    ["sudo berth update --from berth-0.2.0-linux-x64.tar.gz", "from a file, with its signature .minisig beside it"],
    ["sudo berth update --rollback", "the release before"],
  );
}

async function run(root: string, options: Update, { env, write, screen }: CommandContext): Promise<void> {
  const { channel, check, rollback, from, timeout, output } = options;
  const [{ installedRelease }, { checkForUpdate, update, rollback: goBack }, { healthOf }, { openServices }, terminal] =
    await Promise.all([
      import("./installation.ts"),
      import("./update.ts"),
      import("./health.ts"),
      import("../install/services.ts"),
      import("../../cli/terminal.ts"),
    ]);
  const { layout, config, updateUrl, updateKey } = await installedRelease({ root, env, version, options });
  using line = new terminal.StatusLine(screen);
  const progress = (text: string, detail = ""): void => {
    if (screen.isTTY === true) line.show(text, detail);
  };
  const given = {
    layout,
    root,
    channel,
    from,
    updateUrl,
    updateKey,
    services: openServices({ isSystem: layout.isSystem, env, write }),
    health: healthOf(config),
    readyMs: timeout * 1000,
    write: (text: string) => {
      line[Symbol.dispose]();
      write(text);
    },
    onStep: (step: string) => progress(`${step} …`),
    onProgress: (what: string, done: number, all: number | undefined) =>
      progress(what, all === undefined ? ` ${Math.floor(done / 1e6)} MB` : ` ${terminal.bar(done / all)}`),
  };
  if (check) {
    const found = await checkForUpdate(given);
    if (output === "json") {
      write(await renderOne(found, "json"));
      return;
    }
    const { newest, released, installed } = found;
    if (newest === undefined) write(`there is no release on ${channel} for this machine; this is ${installed}\n`);
    else if (!found.is_newer)
      write(`${installed} is up to date: ${newest} is the newest on ${channel}, of ${released ?? ""}\n`);
    else {
      const way = found.changes_state_format ? "; it changes the state's format, so there is no way back" : "";
      write(`${newest} of ${released ?? ""} is on ${channel}, and this is ${installed}${way}\n`);
    }
    return;
  }
  if (rollback && from !== undefined)
    throw new CommandError("update.usage", "--rollback takes the release before", "leave out --from");
  await (rollback ? goBack(given) : update(given));
}
