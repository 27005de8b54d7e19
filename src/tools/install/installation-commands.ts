import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { CommandError } from "../../cli/client.ts";
import type { CommandContext } from "../../cli/context.ts";
import { withExamples } from "../../cli/options.ts";
import { version } from "../../program/version.ts";
import type { Layout } from "./layout.ts";

interface Install {
  readonly yes: boolean;
  readonly model?: string;
  readonly edge?: boolean;
}

interface Uninstall {
  readonly yes: boolean;
  readonly force: boolean;
  readonly keepData: boolean;
  readonly models: boolean;
  readonly config: boolean;
  readonly dev: boolean;
}

/** Throws CommandError for a user without a home directory. */
async function layoutHere(env: NodeJS.ProcessEnv): Promise<Layout> {
  const [{ layoutOf }, { placesOf }] = await Promise.all([import("./layout.ts"), import("../../program/settings.ts")]);
  const layout = layoutOf(placesOf(env));
  if (layout === undefined)
    throw new CommandError("install.nowhere", "there is no HOME to install into", "set HOME, or install as root");
  return layout;
}

const readyMs = 60_000;

/** `berth install` and `berth uninstall`: the program itself and its files on this machine. */
export function addInstallationCommands(program: Command, { env, write, input, screen }: CommandContext): void {
  const root = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
  const install = program
    .command("install")
    .description("install this unpacked release: user, directories, units, services; lists the steps first, and asks")
    .option("-y, --yes", "do it, and ask nothing", false)
    .option("--model <file>", "the GGUF file of a new slot primary")
    .option("--edge", "with authentication: an HTTPS proxy after all")
    .option("--no-edge", "with authentication: no HTTPS proxy; later runs leave it out, too")
    .action(async ({ yes, model, edge }: Install) => {
      const [{ install: run }, { thisHost }, { debiansCaddyfile }, { openServices }] = await Promise.all([
        import("./install.ts"),
        import("./install-target.ts"),
        import("./access-steps.ts"),
        import("./services.ts"),
      ]);
      const layout = await layoutHere(env);
      // Programs and units are for everybody to read, whatever the shell of root says.
      process.umask(0o022);
      await run({
        env,
        root,
        version,
        layout,
        services: openServices({ isSystem: layout.isSystem, env, write }),
        host: thisHost,
        caddyfile: debiansCaddyfile,
        isConfirmed: yes,
        model,
        hasEdge: edge,
        input,
        screen,
        write,
        readyMs,
      });
    });
  withExamples(
    install,
    ["./install.sh", "from the unpacked release: the steps, then a question"],
    ["./install.sh --yes --model /srv/qwen3-4b.gguf", "and the slot primary of that model"],
    [
      "SVC_AUTH_ENABLED=1 SVC_HOSTNAME=ai.local SVC_ADMIN_USER=ada ./install.sh",
      "with tokens, and HTTPS by Caddy; asks for the password",
    ],
  );
  const uninstall = program
    .command("uninstall")
    .description("stop every engine and remove Berth's files on this machine; lists them first, and requires --yes")
    .option("-y, --yes", "do it", false)
    .option("--force", "the same as --yes", false)
    .option("--keep-data", "leave tokens, settings, conversations, backups and found digests", false)
    .option("--models", "remove the model files too, and whatever else lies in their directory", false)
    .option("--config", "remove the manifests and berth.toml too", false)
    .option("--dev", "in a clone: what `make setup` has installed too", false)
    .action(async ({ yes, force, keepData, models, config, dev }: Uninstall) => {
      const [{ uninstall: run }, { installationOf }] = await Promise.all([
        import("./uninstall.ts"),
        import("./remove-installation.ts"),
      ]);
      const installation = await installationOf(env, write);
      await run({
        env: installation?.env ?? env,
        installation,
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
    ["berth uninstall --yes --keep-data", "all but tokens, settings, conversations, models and your manifests"],
  );
}
