import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import { openLog } from "./log.ts";
import { holdLog, holdMessage, releaseLog, releaseMessage } from "./log-hold.ts";
import { untilStopped, type StopKind } from "./signals.ts";
import type { PartCommand } from "./part-entry.ts";
import { Part } from "./part.ts";

const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
const entry = fileURLToPath(new URL(`part-entry.${extension}`, import.meta.url));

/** Limits of V8's memory, MiB; bin/berth has the reasons, and the same values for `berth operator` and `berth serve`. */
const heap = {
  operator: ["--max-semi-space-size=1", "--max-old-space-size=768"],
  gateway: ["--max-semi-space-size=8", "--max-old-space-size=320"],
} as const;

/** Memory of large bodies is returned to the system at once; bin/berth has the reason. */
const memory = { operator: {}, gateway: { MALLOC_MMAP_THRESHOLD_: "131072" } } as const;

export interface RunningUp {
  /** The exit code, once everything has ended. */
  readonly ended: Promise<number>;
  /** Buffers the lines of the log in its text form, so that other output can be shown in one piece. */
  holdLog(): Disposable;
}

export interface SupervisorOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly logLevel: string;
}

/**
 * Operator and gateway as two children in their own process groups. A child that has been ready is started again
 * whenever it ends, also where its next start fails; a child that was never ready ends everything. At a stop, the
 * gateway drains, then the operator ends every engine of this instance.
 */
export function supervise(options: SupervisorOptions): RunningUp {
  const log = openLog({ level: options.logLevel, component: "up", env: options.env });
  const { stopped, again } = untilStopped();
  const failed = Promise.withResolvers<"failed">();
  const partOf = (name: "operator" | "gateway", command: PartCommand): Part =>
    new Part({
      name,
      log,
      // A process group of its own: a Ctrl-C on the terminal reaches only this process, which stops the children in
      // order.
      fork: () =>
        fork(entry, [command], {
          env: { ...memory[name], ...options.env },
          execArgv: [...process.execArgv, ...heap[name]],
          detached: true,
          stdio: ["ignore", "inherit", "inherit", "ipc"],
        }),
      onFailed: () => failed.resolve("failed"),
    });
  const operator = partOf("operator", "operator");
  const gateway = partOf("gateway", "serve");
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
      // The operator needs a moment to kill the engines; then no process of this instance is left.
      setTimeout(() => killAll("SIGKILL"), 2000).unref();
    };
    if (again.aborted) onAgain();
    else again.addEventListener("abort", onAgain, { once: true });
    // While the gateway drains, the operator is not restarted either.
    operator.keepDown();
    await gateway.stop(kind);
    await operator.stop(kind);
    if (operator.hasLeftEngines) await endLeftEngines(options.env, log);
    return outcome === "failed" ? 1 : 0;
  }
}

/** In place of the operator. Another operator that has taken over meanwhile keeps its engines. */
async function endLeftEngines(env: NodeJS.ProcessEnv, log: Logger): Promise<void> {
  try {
    const { stopAllEngines } = await import("../operator/act/down.ts");
    const { readSettings } = await import("./settings.ts");
    const { config } = await readSettings(env);
    const slots = await stopAllEngines(config, { stopSeconds: 0, listTimeoutMs: 3000 });
    if (slots.length > 0) log.warn(`the operator left engines running; ended ${slots.join(", ")}`);
  } catch (error) {
    if (error instanceof Error && error.name === "LockHeld") return;
    log.error({ err: error }, "engines may still run; `berth down` ends them");
  }
}
