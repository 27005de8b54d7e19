import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import type { Config } from "../api/config.ts";
import { openLog } from "./log.ts";
import { holdLog, holdMessage, releaseLog, releaseMessage } from "./log-hold.ts";
import { Part } from "./part.ts";
import { readSettings } from "./settings.ts";
import { untilStopped, type StopKind } from "./signals.ts";

const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
const entry = fileURLToPath(new URL(`berth.${extension}`, import.meta.url));

/** Memory for young garbage, MiB; bin/berth says why, and says the same to `berth operator` and `berth serve`. */
const youngHeap = { operator: ["--max-semi-space-size=1"], gateway: ["--max-semi-space-size=8"] } as const;

/** The system gets back at once what large bodies took; bin/berth says why. */
const memory = { operator: {}, gateway: { MALLOC_MMAP_THRESHOLD_: "131072" } } as const;

export interface RunningUp {
  /** The exit code, once everything has ended. */
  readonly ended: Promise<number>;
  /** Holds back the lines of the log in its text form, so that something else can be shown in one piece. */
  holdLog(): Disposable;
}

/** `berth up`. Resolves with the exit code. */
export async function up(options: { env: NodeJS.ProcessEnv }): Promise<number> {
  const { ended } = await startUp(options);
  return await ended;
}

/**
 * Operator and gateway as two children in their own process groups. One that has been ready is started again whenever
 * it ends, also where its next start fails; one that was never ready ends everything. When stopped, the gateway drains,
 * then the operator ends every engine of this instance.
 */
export async function startUp(options: { env: NodeJS.ProcessEnv }): Promise<RunningUp> {
  const { config } = await readSettings(options.env);
  const log = openLog({ level: config.logLevel, component: "up", env: options.env });
  const { stopped, again } = untilStopped();
  const failed = Promise.withResolvers<"failed">();
  const partOf = (name: "operator" | "gateway", args: readonly string[]): Part =>
    new Part({
      name,
      log,
      // A group of its own: a Ctrl-C on the terminal reaches only this process, which stops them in order.
      fork: () =>
        fork(entry, args, {
          env: { ...memory[name], ...options.env },
          execArgv: [...process.execArgv, ...youngHeap[name]],
          detached: true,
          stdio: ["ignore", "inherit", "inherit", "ipc"],
        }),
      onFailed: () => failed.resolve("failed"),
    });
  const operator = partOf("operator", ["operator", "--stop-engines"]);
  const gateway = partOf("gateway", ["serve"]);
  const parts = [operator, gateway];
  for (const part of parts) part.start();
  return {
    ended: untilEnded(),
    holdLog() {
      holdLog();
      for (const part of parts) part.send(holdMessage);
      return {
        [Symbol.dispose]() {
          releaseLog();
          for (const part of parts) part.send(releaseMessage);
        },
      };
    },
  };

  async function untilEnded(): Promise<number> {
    const outcome = await Promise.race([stopped, failed.promise]);
    const kind: StopKind = outcome === "failed" ? "interrupt" : outcome;
    if (outcome !== "failed") log.info("stopping; press Ctrl-C again to kill at once");
    const killAll = (signal: NodeJS.Signals): void => parts.forEach((part) => part.kill(signal));
    const onAgain = (): void => {
      killAll("SIGINT");
      // The operator needs a moment to kill the engines; then nothing of ours may be left.
      setTimeout(() => killAll("SIGKILL"), 2000).unref();
    };
    if (again.aborted) onAgain();
    else again.addEventListener("abort", onAgain, { once: true });
    // While the gateway drains, the operator is started again no more either.
    operator.keepDown();
    await gateway.stop(kind);
    await operator.stop(kind);
    if (operator.hasLeftEngines) await endLeftEngines(config, log);
    return outcome === "failed" ? 1 : 0;
  }
}

/** In the operator's stead. Another operator that has taken over meanwhile keeps its engines. */
async function endLeftEngines(config: Config, log: Logger): Promise<void> {
  const { stopAllEngines } = await import("../operator/down.ts");
  try {
    const slots = await stopAllEngines(config, { stopSeconds: 0, lookMs: 3000 });
    if (slots.length > 0) log.warn(`the operator left engines running; ended ${slots.join(", ")}`);
  } catch (error) {
    if (error instanceof Error && error.name === "LockHeld") return;
    log.error({ err: error }, "engines may still run; `berth down` ends them");
  }
}
