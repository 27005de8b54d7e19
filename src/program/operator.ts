import type { Config } from "../api/config.ts";
import { errorMessage } from "../lib/error-code.ts";
import { keptSuccess } from "../lib/kept-success.ts";
import { findEmbedded } from "./embedded.ts";
import { findCatalog } from "./shipped-catalog.ts";
import { findImages } from "./shipped-images.ts";
import { explainStart } from "./failure.ts";
import { holdingsHere, hardwareProbe } from "./hardware.ts";
import { findLlamaServer } from "./llama-server.ts";
import { enginePrint } from "./engine-print.ts";
import { openLog } from "./log.ts";
import { notifyParent } from "./parent.ts";
import { followHolds } from "./log-hold.ts";
import { readSettings } from "./settings.ts";
import { untilStopped } from "./signals.ts";
import { version } from "./version.ts";

/** Ctrl-C is over within ten seconds whatever `stopSeconds` says, and whatever Docker does. */
const stopTimes = {
  interrupt: { stopSeconds: 3, listTimeoutMs: 1500 },
  terminate: { stopSeconds: 30, listTimeoutMs: 15_000 },
} as const;

/**
 * `berth operator`: keeps slots as declared until it is stopped. Engines stay for its successor, unless `stopsEngines`.
 * Resolves with the exit code.
 */
export async function operator(options: {
  env: NodeJS.ProcessEnv;
  paused: boolean;
  /** Waits while another operator leads. */
  isStandby?: boolean;
  stopsEngines?: boolean;
}): Promise<number> {
  const { config, warnings } = await readSettings(options.env);
  const log = openLog({ level: config.logLevel, component: "operator", env: options.env });
  followHolds();
  for (const warning of warnings) log.warn(warning);
  const { stopped, again } = untilStopped();
  const stopping = new AbortController();
  const lost = Promise.withResolvers<{ readonly why: string }>();
  let hasActed = false;
  void stopped.then(() => {
    stopping.abort();
    // A wait at the start, such as for a Docker that does not answer, may take long, and there is nothing to end yet.
    // Engines of an earlier operator are not ended either; the exit code reports that.
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
      version,
      isPaused: options.paused,
      isStandby: options.isStandby === true,
      signal: stopping.signal,
      onActing: () => {
        hasActed = true;
        notifyParent("acting");
      },
      onLost: (deleted) => lost.resolve({ why: whyLost(config, deleted) }),
      host: {
        llamaServer,
        ...(llamaServer === undefined
          ? {}
          : { server: await askServer(llamaServer, { env: options.env, engineUser }) }),
        embedded: findEmbedded(config.stateDir),
      },
      probe: await hardwareProbe(config),
      holdings: await holdingsHere(),
      print: enginePrint(options.env, engineUser),
      images: await findImages(config.llamaImage),
      // Read once a model is fetched, or is to be: it takes a tenth of the CPU time of a start.
      catalog: keptSuccess(findCatalog),
      env: options.env,
    });
  } catch (error) {
    const line = explainStart(error, config, "SVC_OPERATOR_PORT");
    if (line === undefined) throw error;
    const isHeld = error instanceof Error && error.name === "LockHeld";
    log.fatal(isHeld && options.stopsEngines !== true ? `${line}; with --standby this one waits for its end` : line);
    return 1;
  }
  if (!stopping.signal.aborted) notifyParent("ready");
  const kind = await Promise.race([stopped, lost.promise]);
  if (typeof kind === "object") {
    log.fatal(`${kind.why}; this operator ends, and engines are left to the next start`);
    await running[Symbol.asyncDispose]();
    return 1;
  }
  if (options.stopsEngines === true) {
    log.info("stopping every engine");
    try {
      await running.stopEngines({ ...stopTimes[kind], signal: again });
    } catch (error) {
      log.error(`not every engine has ended: ${errorMessage(error)}`);
      await running[Symbol.asyncDispose]();
      return 1;
    }
  }
  await running[Symbol.asyncDispose]();
  return 0;
}

function whyLost({ store, stateDir }: Config, deleted: string | undefined): string {
  if (deleted !== undefined) return `${deleted} was deleted while the operator runs`;
  if (store === "kubernetes") return "the Lease berth-operator was taken by another operator";
  return `the state directory ${stateDir} was deleted, or taken by another operator`;
}
