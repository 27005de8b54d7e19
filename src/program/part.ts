import type { ChildProcess } from "node:child_process";
import { errorMessage } from "../lib/error-code.ts";
import type { StopKind } from "./signals.ts";

/** First and last wait before another attempt. */
const restartDelayMs = { first: 500, last: 8000 } as const;
/**
 * How long each part may take to stop before it is killed: longer than its own deadline (`serve.ts`, `operator.ts`), and
 * together within ten seconds of a Ctrl-C.
 */
const stopLimitMs = {
  interrupt: { gateway: 4500, operator: 5000 },
  terminate: { gateway: 3_700_000, operator: 60_000 },
} as const;

export interface PartOptions {
  readonly name: "operator" | "gateway";
  /** Creates its process, with an IPC channel. */
  readonly fork: () => ChildProcess;
  readonly log: { error(line: string): void; warn(line: string): void };
  /** It has never been ready, and has ended or could not be started at all. */
  readonly onFailed: () => void;
  /** Calls the task after so many milliseconds; absent: by a timer. */
  readonly later?: (task: () => void, ms: number) => void;
}

/**
 * One of the two processes of `berth up`. Once it has been ready it is started again whenever it ends, until it is
 * stopped: a cause that keeps a later start from succeeding, such as a bad `berth.toml`, a full disk or a taken port,
 * must not end the part that still serves.
 */
export class Part {
  readonly #options: PartOptions;
  #child: ChildProcess | undefined;
  /** Gateways that finish their requests, while their successor accepts new ones. */
  readonly #leaving = new Set<ChildProcess>();
  #hasEverBeenReady = false;
  #hasEverActed = false;
  #exitCode: number | null = null;
  #isStopping = false;
  /** Failed starts in a row. */
  #failures = 0;

  constructor(options: PartOptions) {
    this.#options = options;
  }

  /** A child may have started engines that nobody has ended. */
  get hasLeftEngines(): boolean {
    // A child that ends with code 0 after the stop has ended every engine; any other has left its engines.
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
      // Later errors of its channel do not matter.
      child.on("error", () => undefined);
      return;
    }
    this.#child = child;
    let isReady = false;
    child.on("message", (message) => {
      if (message === "acting") this.#hasEverActed = true;
      // Stopped by another process: its successor need not wait for the end of the last request.
      if (message === "leaving" && this.#child === child && !this.#isStopping) this.send("release");
      if (message === "released") this.#replace(child);
      if (message !== "ready") return;
      isReady = true;
      this.#hasEverBeenReady = true;
      this.#failures = 0;
    });
    // The process exists, or existed: its exit event follows.
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

  /** A child whose channel is closed does not receive the message. */
  send(message: string): void {
    if (this.#child?.connected === true) this.#child.send(message, () => undefined);
  }

  kill(signal: NodeJS.Signals): void {
    for (const child of this.#all()) child.kill(signal);
  }

  /** From now on it is not started again. */
  keepDown(): void {
    this.#isStopping = true;
  }

  /** Resolves when none of its processes is left, and none will be started. */
  async stop(kind: StopKind): Promise<void> {
    this.keepDown();
    await Promise.all(this.#all().map((child) => this.#end(child, kind)));
  }

  #all(): ChildProcess[] {
    return [...(this.#child === undefined ? [] : [this.#child]), ...this.#leaving];
  }

  /** Starts the successor of a child that has closed its port and is ending: the successor may listen now. */
  #replace(child: ChildProcess): void {
    if (this.#isStopping || this.#child !== child) return;
    this.#options.log.warn(`${this.#options.name} was stopped by another process; its successor starts`);
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

  /** The system created no process (EAGAIN, ENOMEM, EMFILE), and no `exit` will follow. */
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

  /** After a failed start: each wait is twice as long as the one before. */
  #startLater(line: string): void {
    const delayMs = Math.min(restartDelayMs.last, restartDelayMs.first * 2 ** this.#failures);
    this.#failures += 1;
    this.#options.log.error(`${line}; trying again in ${delayMs / 1000} s`);
    this.#startIn(delayMs);
  }

  #startIn(ms: number): void {
    const { later = setTimeout } = this.#options;
    later(() => {
      if (!this.#isStopping) this.start();
    }, ms);
  }
}
