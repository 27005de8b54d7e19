import { join } from "node:path";
import { nginxEngine, nginxProxy } from "./nginx.ts";
import type { Pinned } from "./pinned.ts";
import { listening, startProgram, type Started } from "./process.ts";
import { engineCommand, openSite, type Site } from "./site.ts";

/** A gateway with a slot `bench`, whose warm engine knows its model as `fixed`. */
export interface Served {
  readonly site: Site;
  readonly gateway: Started;
}

/** Berth and nginx side by side before one engine; an earlier commit of Berth beside them has an engine of the same kind. */
export interface Stage extends AsyncDisposable, Served {
  readonly pinned?: Served & Pick<Pinned, "name">;
  readonly nginx: Started;
  readonly enginePort: number;
  readonly nginxPort: number;
}

export interface StageOptions {
  /** `instant`: the fastest engine there is, for whole answers; `streams`: the double that streams. */
  readonly engine: "instant" | "streams";
  /** A commit of Berth to measure beside the present one. */
  readonly against?: Pinned | undefined;
}

export async function openStage(options: StageOptions): Promise<Stage> {
  const { against } = options;
  await using stack = new AsyncDisposableStack();
  const { site, gateway } = await serve(stack, options);
  const pinned = against && { ...(await serve(stack, options, against.root)), name: against.name };
  const nginxPort = site.sparePort;
  const nginx = stack.use(
    startProgram(await nginxProxy(join(site.directory, "nginx"), { port: nginxPort, enginePort: site.enginePort }), {
      logFile: join(site.directory, "nginx.log"),
    }),
  );
  await listening(nginxPort);
  const owned = stack.move();
  return {
    site,
    gateway,
    ...(pinned && { pinned }),
    nginx,
    enginePort: site.enginePort,
    nginxPort,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function serve(stack: AsyncDisposableStack, { engine }: StageOptions, root?: string): Promise<Served> {
  const site = stack.use(await openSite({ slotPorts: 1, ...(root !== undefined && { root }) }));
  const command =
    engine === "streams"
      ? engineCommand()
      : await nginxEngine(join(site.directory, "engine"), { port: site.enginePort, model: "fixed" });
  // Client and engine know the model by different names, as with a real slot.
  await site.slot("bench", { model: { default: "fixed" }, command });
  await site.operator();
  await site.state("bench", "ready");
  return { site, gateway: await site.gateway() };
}
