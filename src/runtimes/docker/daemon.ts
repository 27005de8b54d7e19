import { Agent } from "node:http";
import { inspect } from "node:util";
import { errorCode } from "../../lib/error-code.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import { Dockerode } from "./client.ts";
import { elsewhere, socketPath } from "./socket.ts";

/** The daemon answered, and said no. */
export class DaemonRefusal extends Error {
  override readonly name = "DaemonRefusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** "brief": a look, which any daemon answers soon. "limited": what changes something may take its time. */
type Wait = "brief" | "limited" | "asAborted";

/**
 * Its client writes every request down for a debug log, whether or not anybody reads that: of an agent all connections
 * and all that hangs on them, a tenth of a second for each question.
 */
class BriefAgent extends Agent {
  [inspect.custom](): string {
    return "Agent";
  }
}

/** What is being asked, and can be given up. */
interface Question {
  readonly giveUp: (reason: Error) => void;
}

const conflict = 409;

interface DaemonOptions {
  /** How long it may keep silent before a request counts as not answered. */
  readonly silenceMs?: number;
  /** The same for one that only looks. */
  readonly briefMs?: number;
  /** Why it cannot be asked at all. */
  readonly problem?: string;
}

/** One Docker daemon or Podman service, by its socket. Whatever goes wrong is RuntimeUnavailable or DaemonRefusal. */
export class Daemon implements Disposable {
  readonly path: string;
  /** Of its own, to be closed. A connection that rests is closed before a service does, which may be as one asks. */
  readonly #agent = new BriefAgent({ keepAlive: true, scheduling: "lifo", timeout: 5000 });
  readonly #api: Dockerode;
  readonly #patient: Dockerode;
  readonly #silenceMs: number;
  readonly #asked = new Set<Question>();
  #briefMs: number;
  #problem: string | undefined;
  #isHurried = false;

  constructor(
    path: string,
    { silenceMs = 60_000, briefMs = Math.min(silenceMs, 15_000), problem }: DaemonOptions = {},
  ) {
    this.path = path;
    this.#problem = problem;
    this.#silenceMs = silenceMs;
    this.#briefMs = briefMs;
    // Its types know no agent.
    const way = { socketPath: path, agent: this.#agent };
    // The time limit here frees the connection of a question that was given up.
    this.#api = new Dockerode({ ...way, timeout: silenceMs });
    this.#patient = new Dockerode({ ...way });
  }

  /** The one that `DOCKER_HOST` names. One that cannot be ours never answers, and says why: the rest goes on. */
  static at(dockerHost = "", options: Pick<DaemonOptions, "briefMs"> = {}): Daemon {
    const path = socketPath(dockerHost);
    return path === undefined ? new Daemon(dockerHost, { problem: elsewhere(dockerHost) }) : new Daemon(path, options);
  }

  /**
   * Somebody waits for the end of all this: what is being asked is given up after `ms`, a look from now on is too, and
   * after the first that was, nothing is asked any more. Streams have signals of their own.
   */
  hurry(ms: number): void {
    this.#isHurried = true;
    this.#briefMs = Math.min(this.#briefMs, ms);
    const asked = [...this.#asked];
    setTimeout(() => {
      for (const question of asked) question.giveUp(tooLate(ms));
    }, ms).unref();
  }

  /** Closes every connection, and gives up what is being asked. */
  [Symbol.dispose](): void {
    this.#problem ??= "the connection to the Docker daemon was closed";
    for (const { giveUp } of this.#asked) giveUp(new Error("its connection was closed"));
    this.#agent.destroy();
  }

  async isPodman(): Promise<boolean> {
    const version = JSON.stringify(await this.ask((api) => api.version(), "brief"));
    return version.includes('"Podman');
  }

  /** `wait` "asAborted": for streams and for what takes as long as it takes; the question's own signal ends it. */
  async ask<T>(question: (api: Dockerode) => Promise<T>, wait: Wait = "limited"): Promise<T> {
    if (this.#problem !== undefined) throw new RuntimeUnavailable(this.#problem);
    try {
      if (wait === "asAborted") return await question(this.#patient);
      return await this.#within(wait === "brief" ? this.#briefMs : this.#silenceMs, wait, question(this.#api));
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** A stream, whose beginning is waited for no longer than an answer to a look. `signal` ends it at any time. */
  async stream<T>(open: (api: Dockerode, signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const late = new AbortController();
    try {
      return await this.ask(
        (api) => this.#within(this.#briefMs, "brief", open(api, AbortSignal.any([signal, late.signal]))),
        "asAborted",
      );
    } catch (error) {
      late.abort();
      throw error;
    }
  }

  /** As `ask`, but undefined where the daemon says that there is no such thing. */
  async find<T>(question: (api: Dockerode) => Promise<T>, wait: Wait = "limited"): Promise<T | undefined> {
    try {
      return await this.ask(question, wait);
    } catch (error) {
      if (error instanceof DaemonRefusal && error.status === 404) return undefined;
      throw error;
    }
  }

  /** As `ask`; no such thing (404), or already so (304, 409), is success. */
  async settle(question: (api: Dockerode) => Promise<unknown>): Promise<void> {
    try {
      await this.ask(question);
    } catch (error) {
      if (!(error instanceof DaemonRefusal) || ![304, 404, conflict].includes(error.status)) throw error;
    }
  }

  /** Rejects after `ms` whatever becomes of the answer: one that was lost on its way never settles. */
  async #within<T>(ms: number, wait: Wait, answer: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const question: Question = {
      giveUp: (reason) => {
        if (this.#isHurried && wait === "brief") this.#problem ??= silenceOf(this.path, reason);
        reject(reason);
      },
    };
    const timer = setTimeout(() => question.giveUp(tooLate(ms)), ms);
    this.#asked.add(question);
    try {
      return await Promise.race([answer, promise]);
    } finally {
      clearTimeout(timer);
      this.#asked.delete(question);
    }
  }

  #explain(error: unknown): Error {
    if (!(error instanceof Error)) return new Error(String(error));
    if (error.name === "AbortError") return error;
    if ("statusCode" in error && typeof error.statusCode === "number") {
      const said = saidBy(error);
      return new DaemonRefusal(error.statusCode === 500 ? meantBy(said) : error.statusCode, said);
    }
    return new RuntimeUnavailable(silenceOf(this.path, error), { cause: error });
  }
}

function tooLate(ms: number): Error {
  return new Error(`no word for ${ms / 1000} s`);
}

const whatToDo: Readonly<Record<string, string>> = {
  EACCES: "this user may not use it; add it to the socket's group (docker) and log in anew",
  ENOENT: "there is no such socket; is Docker, or Podman's service, installed and running?",
  ECONNREFUSED: "nobody listens there; is the daemon running?",
};

/** That a daemon does not answer, and what to do about it where that is known. */
export function silenceOf(path: string, error: Error): string {
  const known = whatToDo[errorCode(error) ?? ""];
  return `the Docker daemon at ${path} does not answer: ${known ?? error.message}`;
}

/**
 * What Podman calls a failure of its own, as Docker has it: a conflict with a container's state or a name, and a
 * container that goes while it is looked at.
 */
function meantBy(said: string): number {
  if (/container state improper|name is already in use/.test(said)) return conflict;
  return /no such (container|image|network)/.test(said) ? 404 : 500;
}

/** The daemon's own words; docker-modem wraps them as `(HTTP code 404) no such container - …`. */
function saidBy(error: Error): string {
  if ("json" in error && typeof error.json === "object" && error.json !== null && "message" in error.json) {
    return String(error.json.message);
  }
  return error.message;
}
