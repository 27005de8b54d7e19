import { fork, type ChildProcess } from "node:child_process";
import { watch, type FSWatcher } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import { openLog } from "./log.ts";
import { readSettings, SettingsError } from "./settings.ts";
import { untilStopped } from "./signals.ts";
import { errorMessage } from "../lib/error-code.ts";

const isClone = import.meta.url.endsWith(".ts");
const entry = fileURLToPath(new URL(`../main/berth.${isClone ? "ts" : "js"}`, import.meta.url));
const sources = fileURLToPath(new URL("..", import.meta.url));
/** Editors and checkouts write several times; the gateway restarts once. */
const settleMs = 100;

/**
 * `berth serve --reload`: the gateway, restarted when `berth.toml` or, in a clone, the sources change. It drains for at
 * most three seconds, as after a Ctrl-C. Invalid settings change nothing. Resolves with the exit code.
 */
export async function serveReloading(options: {
  env: NodeJS.ProcessEnv;
  host?: string;
  port?: number;
}): Promise<number> {
  const { env, host, port } = options;
  const { config } = await readSettings(env);
  const log = openLog({ level: config.logLevel, component: "reload", env });
  const args = [
    "serve",
    ...(host === undefined ? [] : ["--host", host]),
    ...(port === undefined ? [] : ["--port", String(port)]),
  ];
  const { stopped, again } = untilStopped();
  const changes = new Changes(config.configDir, log);
  using _watching = changes;
  let isFirst = true;
  for (;;) {
    changes.forget();
    const child = fork(entry, args, { env, detached: true, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const ended = new Promise<"ended">((resolve) => child.once("exit", () => resolve("ended")));
    child.once("message", () => (isFirst = false));
    const onAgain = (): void => void child.kill("SIGKILL");
    again.addEventListener("abort", onAgain, { once: true });
    const changed = nextGoodChange(changes, env, log);
    let happened = await Promise.race([stopped, ended, changed]);
    if (happened === "ended") {
      if (isFirst) return child.exitCode ?? 1;
      log.error("the gateway ended; it starts again with the next change");
      happened = await Promise.race([stopped, changed]);
    }
    await end(child, happened === "terminate" ? "SIGTERM" : "SIGINT", ended);
    again.removeEventListener("abort", onAgain);
    if (happened !== "changed") return 0;
    log.info("starting the gateway again");
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals, ended: Promise<unknown>): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) child.kill(signal);
  await ended;
}

async function nextGoodChange(changes: Changes, env: NodeJS.ProcessEnv, log: Logger): Promise<"changed"> {
  for (;;) {
    await changes.next();
    try {
      await readSettings(env);
      return "changed";
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error;
      for (const line of error.lines) log.error(`${line}; the gateway keeps running unchanged`);
    }
  }
}

/** Changes of the files that the gateway was started from. */
class Changes {
  readonly #watchers: FSWatcher[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** A change came while the last one was handled. */
  #isPending = false;
  #waiting: (() => void)[] = [];

  constructor(configDir: string, log: Logger) {
    this.#watch(configDir, (name) => name === "berth.toml", log);
    if (isClone) this.#watch(sources, (name) => name.endsWith(".ts"), log);
  }

  /** Resolves at the next change that no earlier call has returned, once writing has settled. */
  async next(): Promise<void> {
    if (!this.#isPending) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#isPending = false;
  }

  /** Drops the changes so far, before a caller reads everything. */
  forget(): void {
    this.#isPending = false;
  }

  #watch(directory: string, isOfInterest: (name: string) => boolean, log: Logger): void {
    try {
      const watcher = watch(directory, { recursive: directory === sources }, (_event, name) => {
        if (name === null || isOfInterest(name)) this.#note();
      });
      watcher.on("error", (error) => log.warn(`${directory} cannot be watched: ${error.message}`));
      this.#watchers.push(watcher);
    } catch (error) {
      log.warn(`${directory} cannot be watched: ${errorMessage(error)}`);
    }
  }

  #note(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isPending = true;
      for (const resolve of this.#waiting.splice(0)) resolve();
    }, settleMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers) watcher.close();
  }
}
