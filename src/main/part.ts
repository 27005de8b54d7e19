import type { ChildProcess } from "node:child_process";
import { errorMessage } from "../lib/error-code.ts";
import type { StopKind } from "./signals.ts";

/** First and last wait for another try. */
const restartDelayMs = { first: 500, last: 8000 } as const;
/** How long each part may take to stop before it is killed; together within ten seconds of a Ctrl-C. */
const stopLimitMs = {
  interrupt: { gateway: 4500, operator: 5000 },
  terminate: { gateway: 3_700_000, operator: 60_000 },
} as const;

export interface PartOptions {
  readonly name: "operator" | "gateway";
  /** Makes its process, with an IPC channel. */
  readonly fork: () => ChildProcess;
  readonly log: { error(line: string): void; warn(line: string): void };
  /** It has never been ready, and has ended or could not be started at all. */
  readonly onFailed: () => void;
}

/**
 * One of the two processes of `berth up`. Once it has been ready it is started again whenever it ends, until it is
 * stopped: what keeps a later start from succeeding, such as a bad `berth.toml`, a full disk or a taken port, must not
 * end what still serves.
 */
export class Part {
  readonly #options: PartOptions;
  #child: ChildProcess | undefined;
  /** Gateways that end what they have begun, while another takes what comes. */
  readonly #leaving = new Set<ChildProcess>();
  #hasEverBeenReady = false;
  #hasEverActed = false;
  #exitCode: number | null = null;
  #isStopping = false;
  /** Starts in a row that did not become ready, since one that did. */
  #failures = 0;

  constructor(options: PartOptions) {
    this.#options = options;
  }

  /** A child of it may have started engines that nobody has ended. */
  get hasLeftEngines(): boolean {
    // One that ends well after the stop has ended every engine; any other has left what ran.
    return this.#hasEverActed && this.#exitCode !== 0;
  }

  start(): void {
    const { name, log, onFailed } = this.#options;
    let child: ChildProcess | undefined;
    try {
      child = this.#options.fork();
    } catch (error) {
      this.#notStarted(error);
      return;
    }
    if (child.pid === undefined) {
      child.once("error", (error) => this.#notStarted(error));
      // What its channel may say after that is of no use.
      child.on("error", () => undefined);
      return;
    }
    this.#child = child;
    let isReady = false;
    child.on("message", (message) => {
      if (message === "acting") this.#hasEverActed = true;
      // Stopped by somebody else than this process: the next one need not wait for the end of the last request.
      if (message === "leaving" && this.#child === child && !this.#isStopping) this.send("release");
      if (message === "released") this.#replace(child);
      if (message !== "ready") return;
      isReady = true;
      this.#hasEverBeenReady = true;
      this.#failures = 0;
    });
    // It runs, or has run: what became of it, its exit tells.
    child.on("error", (error) => log.error(`${name}: ${error.message}`));
    child.once("exit", (code, signal) => {
      if (this.#leaving.delete(child)) return;
      this.#child = undefined;
      this.#exitCode = this.#isStopping ? code : null;
      if (this.#isStopping) return;
      const line = `${name} ended (${signal ?? `code ${code ?? "?"}`})`;
      if (isReady) {
        log.error(`${line}; starting it again`);
        this.#startIn(restartDelayMs.first);
      } else if (this.#hasEverBeenReady) this.#startLater(`${line} before it was ready`);
      else onFailed();
    });
  }

  /** A child that does not listen any more misses it. */
  send(message: string): void {
    if (this.#child?.connected === true) this.#child.send(message, () => undefined);
  }

  kill(signal: NodeJS.Signals): void {
    for (const child of this.#all()) child.kill(signal);
  }

  /** From now on one that ends is started again no more. */
  keepDown(): void {
    this.#isStopping = true;
  }

  /** Resolves when no process of it is left, and none will be started. */
  async stop(kind: StopKind): Promise<void> {
    this.keepDown();
    await Promise.all(this.#all().map((child) => this.#end(child, kind)));
  }

  #all(): ChildProcess[] {
    return [...(this.#child === undefined ? [] : [this.#child]), ...this.#leaving];
  }

  /** It listens no more and ends by itself: another may listen now. */
  #replace(child: ChildProcess): void {
    if (this.#isStopping || this.#child !== child) return;
    this.#options.log.warn(`${this.#options.name} was told to stop; another takes its place`);
    this.#leaving.add(child);
    this.start();
  }

  async #end(child: ChildProcess, kind: StopKind): Promise<void> {
    const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill(kind === "interrupt" ? "SIGINT" : "SIGTERM");
    const limitMs = stopLimitMs[kind][this.#options.name];
    const limit = setTimeout(() => {
      this.#options.log.warn(`${this.#options.name} has not ended within ${limitMs / 1000} s; killing it`);
      child.kill("SIGKILL");
    }, limitMs);
    await gone;
    clearTimeout(limit);
  }

  /** The system gave no process (EAGAIN, ENOMEM, EMFILE), and no `exit` will follow. */
  #notStarted(error: unknown): void {
    const { name, log, onFailed } = this.#options;
    if (this.#isStopping) return;
    const line = `${name} could not be started (${errorMessage(error)})`;
    if (this.#hasEverBeenReady) {
      this.#startLater(line);
      return;
    }
    log.error(line);
    onFailed();
  }

  /** After a start that failed: each waits twice as long as the one before. */
  #startLater(line: string): void {
    const delayMs = Math.min(restartDelayMs.last, restartDelayMs.first * 2 ** this.#failures);
    this.#failures += 1;
    this.#options.log.error(`${line}; trying again in ${delayMs / 1000} s`);
    this.#startIn(delayMs);
  }

  #startIn(ms: number): void {
    setTimeout(() => {
      if (!this.#isStopping) this.start();
    }, ms);
  }
}
