import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import type { Config } from "../api/config.ts";
import { openLog } from "./log.ts";
import { readSettings } from "./settings.ts";
import { untilStopped, type StopKind } from "./signals.ts";

const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
const entry = fileURLToPath(new URL(`berth.${extension}`, import.meta.url));

const restartDelayMs = 500;
/** How long each part may take to stop before it is killed; together within ten seconds of a Ctrl-C. */
const stopLimitMs = {
  interrupt: { gateway: 4500, operator: 5000 },
  terminate: { gateway: 3_700_000, operator: 60_000 },
} as const;

/** Memory for young garbage, MiB; bin/berth says why, and says the same to `berth operator` and `berth serve`. */
const youngHeap = { operator: ["--max-semi-space-size=1"], gateway: ["--max-semi-space-size=8"] } as const;

interface Part {
  readonly name: "operator" | "gateway";
  readonly args: readonly string[];
  /** For its Node. */
  readonly flags: readonly string[];
  child: ChildProcess | undefined;
  /** Of the child that runs, or ran last. */
  hasBeenReady: boolean;
  /** Any child of it has begun to start engines: it may have left some, ready or not. */
  hasEverActed: boolean;
  exitCode: number | null;
}

/**
 * `berth up`: operator and gateway as two children in their own process groups. One that dies after it was ready is
 * started again; one that cannot start ends everything. When stopped, the gateway drains, then the operator ends
 * every engine of this instance. Resolves with the exit code.
 */
export async function up(options: { env: NodeJS.ProcessEnv }): Promise<number> {
  const { config } = await readSettings(options.env);
  const log = openLog({ level: config.logLevel, component: "up", env: options.env });
  const { stopped, again } = untilStopped();
  const failed = Promise.withResolvers<"failed">();
  let isStopping = false;
  const fresh = { child: undefined, hasBeenReady: false, hasEverActed: false, exitCode: null };
  const operator: Part = {
    name: "operator",
    args: ["operator", "--stop-engines"],
    flags: youngHeap.operator,
    ...fresh,
  };
  const parts: Part[] = [operator, { name: "gateway", args: ["serve"], flags: youngHeap.gateway, ...fresh }];

  function start(part: Part): void {
    // A group of its own: a Ctrl-C on the terminal reaches only this process, which stops them in order.
    const child = fork(entry, [...part.args], {
      env: options.env,
      execArgv: [...process.execArgv, ...part.flags],
      detached: true,
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    part.child = child;
    part.hasBeenReady = false;
    child.on("message", (message) => {
      if (message === "acting") part.hasEverActed = true;
      if (message === "ready") part.hasBeenReady = true;
    });
    child.on("error", (error) => log.error({ err: error }, `${part.name} could not be started`));
    child.once("exit", (code, signal) => {
      part.child = undefined;
      part.exitCode = isStopping ? code : null;
      if (isStopping) return;
      if (!part.hasBeenReady) {
        failed.resolve("failed");
        return;
      }
      log.error(`${part.name} ended (${signal ?? `code ${code ?? "?"}`}); starting it again`);
      setTimeout(() => {
        if (!isStopping) start(part);
      }, restartDelayMs);
    });
  }

  for (const part of parts) start(part);
  const outcome = await Promise.race([stopped, failed.promise]);
  isStopping = true;
  const kind: StopKind = outcome === "failed" ? "interrupt" : outcome;
  if (outcome !== "failed") log.info("stopping; press Ctrl-C again to kill at once");
  const onAgain = (): void => {
    for (const { child } of parts) child?.kill("SIGINT");
    // The operator needs a moment to kill the engines; then nothing of ours may be left.
    setTimeout(() => parts.forEach(({ child }) => child?.kill("SIGKILL")), 2000).unref();
  };
  if (again.aborted) onAgain();
  else again.addEventListener("abort", onAgain, { once: true });
  for (const part of parts.toReversed()) await end(part, kind);
  // One that ends well after the stop has ended every engine; any other has left what ran.
  if (operator.hasEverActed && operator.exitCode !== 0) await endLeftEngines(config, log);
  return outcome === "failed" ? 1 : 0;
}

/** In the operator's stead. Another operator that has taken over meanwhile keeps its engines. */
async function endLeftEngines(config: Config, log: Logger): Promise<void> {
  const { stopAllEngines } = await import("../operator/down.ts");
  try {
    const slots = await stopAllEngines(config, { stopSeconds: 0 });
    if (slots.length > 0) log.warn(`the operator left engines running; ended ${slots.join(", ")}`);
  } catch (error) {
    if (error instanceof Error && error.name === "LockHeld") return;
    log.error({ err: error }, "engines may still run; `berth down` ends them");
  }
}

async function end(part: Part, kind: StopKind): Promise<void> {
  const { child } = part;
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  child.kill(kind === "interrupt" ? "SIGINT" : "SIGTERM");
  const limit = setTimeout(() => child.kill("SIGKILL"), stopLimitMs[kind][part.name]);
  await gone;
  clearTimeout(limit);
}
