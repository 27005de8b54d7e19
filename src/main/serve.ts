import { explainStart } from "./failure.ts";
import { openLog } from "./log.ts";
import { followHolds } from "./log-hold.ts";
import { readSettings } from "./settings.ts";
import { tellParent } from "./parent.ts";
import { untilStopped } from "./signals.ts";
import { version } from "./version.ts";

/** Of the ten seconds that a Ctrl-C may take in all. */
const interruptDrainSeconds = 3;

/** `berth serve`: the gateway until it is stopped. Resolves with the exit code. */
export async function serve(options: { env: NodeJS.ProcessEnv; host?: string; port?: number }): Promise<number> {
  const env = {
    ...options.env,
    ...(options.host === undefined ? {} : { SVC_HOST: options.host }),
    ...(options.port === undefined ? {} : { SVC_PORT: String(options.port) }),
  };
  const { config, origins, warnings } = await readSettings(env);
  const log = openLog({ level: config.logLevel, component: "gateway", env });
  followHolds();
  for (const warning of warnings) log.warn(warning);
  const { stopped, again } = untilStopped();
  const { runGateway } = await import("../gateway/main.ts");
  let running;
  try {
    running = await runGateway(config, { log, version, configOrigins: origins });
  } catch (error) {
    const line = explainStart(error, config, "SVC_PORT");
    if (line === undefined) throw error;
    log.fatal(line);
    return 1;
  }
  tellParent("ready");
  const kind = await stopped;
  // `berth up` may have another gateway listen at once.
  process.on("message", (message) => {
    if (message !== "release") return;
    running.release();
    tellParent("released");
  });
  tellParent("leaving");
  const drainSeconds =
    kind === "interrupt" ? Math.min(interruptDrainSeconds, config.drainSeconds) : config.drainSeconds;
  await running.close({ drainSeconds, hurry: again });
  return 0;
}
