import { join } from "node:path";
import { nginxEngine, nginxProxy } from "./nginx.ts";
import { listening, startProgram, type Started } from "./process.ts";
import { engineCommand, openSite, type PartOptions, type Site } from "./site.ts";

/** Berth and nginx side by side before one warm engine, which the slot `bench` runs as model `fixed`. */
export interface Stage extends AsyncDisposable {
  readonly site: Site;
  readonly gateway: Started;
  readonly nginx: Started;
  readonly enginePort: number;
  readonly nginxPort: number;
}

export interface StageOptions {
  /** `instant`: the fastest engine there is, for whole answers; `streams`: the double that streams. */
  readonly engine: "instant" | "streams";
  /** Cores of both proxies and of the engine; absent: all. */
  readonly cores?: { readonly proxy: string; readonly others: string };
  readonly gateway?: PartOptions;
}

export async function openStage({ engine, cores, gateway: more = {} }: StageOptions): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const site = stack.use(await openSite({ slotPorts: 1 }));
  const command =
    engine === "streams"
      ? engineCommand()
      : await nginxEngine(join(site.directory, "engine"), { port: site.enginePort, model: "fixed" });
  const pinned = cores === undefined ? command : ["taskset", "-c", cores.others, ...command];
  // Client and engine know the model by different names, as with a real slot.
  await site.slot("bench", { model: { default: "fixed" }, command: pinned });
  await site.operator(cores === undefined ? {} : { cores: cores.others });
  await site.state("bench", "ready");
  const gateway = await site.gateway(cores === undefined ? more : { ...more, cores: cores.proxy });
  const nginxPort = site.sparePort;
  const nginx = stack.use(
    startProgram(await nginxProxy(join(site.directory, "nginx"), { port: nginxPort, enginePort: site.enginePort }), {
      logFile: join(site.directory, "nginx.log"),
      cores: cores?.proxy,
    }),
  );
  await listening(nginxPort);
  const owned = stack.move();
  return {
    site,
    gateway,
    nginx,
    enginePort: site.enginePort,
    nginxPort,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
