import { fileURLToPath } from "node:url";
import type { RunningGateway } from "../gateway/main.ts";
import { explainStart } from "./failure.ts";
import { openServiceLog } from "./log.ts";
import { findCatalog } from "./shipped-catalog.ts";
import { machineReader } from "./hardware.ts";
import { followHolds } from "./log-hold.ts";
import { readSettings } from "./settings.ts";
import { notifyParent } from "./parent.ts";
import { untilStopped } from "./signals.ts";
import { version } from "./version.ts";

/**
 * The time of open requests after a Ctrl-C. Connections are closed up to two seconds later (`src/gateway/drain.ts`): the
 * gateway must end before `berth up` kills it (`stopLimitMs`).
 */
const interruptDrainSeconds = 2;

/** Built by `make setup`, and a part of the package. */
const pages = fileURLToPath(new URL("../../web/dist", import.meta.url));

/** `berth serve`: the gateway until it is stopped. Resolves with the exit code. */
export async function serve(options: {
  env: NodeJS.ProcessEnv;
  host?: string;
  port?: number;
  /** Listens beside the gateway of the same state directory, while that one is replaced. */
  isStandby?: boolean;
}): Promise<number> {
  const env = {
    ...options.env,
    ...(options.host === undefined ? {} : { SVC_HOST: options.host }),
    ...(options.port === undefined ? {} : { SVC_PORT: String(options.port) }),
  };
  const { isStandby = false } = options;
  const { config, origins, warnings } = await readSettings(env);
  const { log, accessLog } = openServiceLog({ level: config.logLevel, component: "gateway", env });
  followHolds();
  for (const warning of warnings) log.warn(warning);
  const { stopped, again } = untilStopped();
  const { runGateway } = await import("../gateway/main.ts");
  let running: RunningGateway | undefined;
  // A wait at the start, such as for an API server that does not answer, may take long, and nothing is served yet.
  void stopped.then(() => {
    if (running === undefined) process.exit(0);
  });
  try {
    const role = isStandby ? "standby" : "gateway";
    const options = {
      log,
      role,
      accessLog,
      version,
      configOrigins: origins,
      catalog: findCatalog,
      pages,
    } as const;
    // In a cluster the engines run on other machines than the gateway.
    const here = config.store === "files" ? { readMachine: machineReader() } : {};
    running = await runGateway(config, { ...options, ...here });
  } catch (error) {
    const line = explainStart(error, config, "SVC_PORT");
    if (line === undefined) throw error;
    log.fatal(line);
    return 1;
  }
  notifyParent("ready");
  const kind = await stopped;
  // A `released` message of `berth up` lets another gateway listen at once.
  process.on("message", (message) => {
    if (message !== "release") return;
    void running.release().then(() => notifyParent("released"));
  });
  notifyParent("leaving");
  const drainSeconds =
    kind === "interrupt" ? Math.min(interruptDrainSeconds, config.drainSeconds) : config.drainSeconds;
  await running.close({ drainSeconds, endNow: again });
  return 0;
}
