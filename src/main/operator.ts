import { errorMessage } from "../lib/error-code.ts";
import { findEmbedded } from "./embedded.ts";
import { findImages } from "./shipped-images.ts";
import { explainStart } from "./failure.ts";
import { holdingsHere, lookOf } from "./hardware.ts";
import { findLlamaServer } from "./llama-server.ts";
import { openLog } from "./log.ts";
import { tellParent } from "./parent.ts";
import { followHolds } from "./log-hold.ts";
import { readSettings } from "./settings.ts";
import { untilStopped } from "./signals.ts";

/** Ctrl-C is over within ten seconds whatever `stopSeconds` says, and whatever Docker does. */
const haste = {
  interrupt: { stopSeconds: 3, lookMs: 1500 },
  terminate: { stopSeconds: 30, lookMs: 15_000 },
} as const;

/**
 * `berth operator`: keeps slots as declared until it is stopped. Engines stay for its successor, unless
 * `stopsEngines`. Resolves with the exit code.
 */
export async function operator(options: {
  env: NodeJS.ProcessEnv;
  paused: boolean;
  stopsEngines?: boolean;
}): Promise<number> {
  const { config, warnings } = await readSettings(options.env);
  const log = openLog({ level: config.logLevel, component: "operator", env: options.env });
  followHolds();
  for (const warning of warnings) log.warn(warning);
  const { stopped, again } = untilStopped();
  const stopping = new AbortController();
  const lost = Promise.withResolvers<"lost">();
  let hasActed = false;
  void stopped.then(() => {
    stopping.abort();
    // What it waits for, such as a silent Docker, may take long, and it has nothing to end. What one before it has left
    // is not ended either, and whoever asked for that is told by the code.
    if (!hasActed) process.exit(options.stopsEngines === true ? 1 : 0);
  });
  const { engineUser } = config;
  const llamaServer = await findLlamaServer(config.llamaServer, options.env);
  const { askServer } = await import("./server-facts.ts");
  const { runOperator } = await import("../operator/main.ts");
  let running;
  try {
    running = await runOperator(config, {
      log,
      isPaused: options.paused,
      signal: stopping.signal,
      onActing: () => {
        hasActed = true;
        tellParent("acting");
      },
      onLost: () => lost.resolve("lost"),
      host: {
        llamaServer,
        ...(llamaServer === undefined
          ? {}
          : { server: await askServer(llamaServer, { env: options.env, engineUser }) }),
        embedded: findEmbedded(config.stateDir),
      },
      look: await lookOf(config),
      holdings: await holdingsHere(),
      images: await findImages(config.llamaImage),
    });
  } catch (error) {
    const line = explainStart(error, config, "SVC_OPERATOR_PORT");
    if (line === undefined) throw error;
    log.fatal(line);
    return 1;
  }
  if (!stopping.signal.aborted) tellParent("ready");
  const kind = await Promise.race([stopped, lost.promise]);
  if (kind === "lost") {
    log.fatal(
      `the state directory ${config.stateDir} was deleted, or taken by another operator; engines are left to the next start`,
    );
    await running[Symbol.asyncDispose]();
    return 1;
  }
  if (options.stopsEngines === true) {
    log.info("stopping every engine");
    try {
      await running.stopEngines({ ...haste[kind], signal: again });
    } catch (error) {
      log.error(`not every engine has ended: ${errorMessage(error)}`);
      await running[Symbol.asyncDispose]();
      return 1;
    }
  }
  await running[Symbol.asyncDispose]();
  return 0;
}
