import { inspect } from "node:util";
import { errorCode } from "../../lib/error-code.ts";
import { Agent } from "../../lib/node-http.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import { Dockerode } from "./client.ts";
import { elsewhere, socketPath } from "./socket.ts";

/** The daemon answered with a refusal. */
export class DaemonRefusal extends Error {
  override readonly name = "DaemonRefusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** "brief": a read, which a daemon answers soon. "limited": a change, which may take longer. */
type Wait = "brief" | "limited" | "asAborted";

/**
 * The client formats every request for a debug log, read or not: with an agent that is all its connections and the
 * objects behind them, a tenth of a second per request.
 */
class BriefAgent extends Agent {
  [inspect.custom](): string {
    return "Agent";
  }
}

/** A request in progress, which can be abandoned. */
interface PendingCall {
  readonly giveUp: (reason: Error) => void;
}

const conflict = 409;

interface DaemonOptions {
  /** The time limit of a request without an answer. */
  readonly callTimeoutMs?: number;
  /** The same for a read. */
  readonly readTimeoutMs?: number;
  /** Why it cannot be used at all. */
  readonly problem?: string;
}

/** One Docker daemon or Podman service, by its socket. Every failure is RuntimeUnavailable or DaemonRefusal. */
export class Daemon implements Disposable {
  readonly path: string;
  /**
   * An agent of its own, to be closed. An idle connection is closed before a service closes it, which could coincide
   * with a request.
   */
  readonly #agent = new BriefAgent({ keepAlive: true, scheduling: "lifo", timeout: 5000 });
  readonly #api: Dockerode;
  readonly #patient: Dockerode;
  readonly #callTimeoutMs: number;
  readonly #pending = new Set<PendingCall>();
  #readTimeoutMs: number;
  #problem: string | undefined;
  #isHurried = false;

  constructor(
    path: string,
    { callTimeoutMs = 60_000, readTimeoutMs = Math.min(callTimeoutMs, 15_000), problem }: DaemonOptions = {},
  ) {
    this.path = path;
    this.#problem = problem;
    this.#callTimeoutMs = callTimeoutMs;
    this.#readTimeoutMs = readTimeoutMs;
    // The types of dockerode have no agent.
    const way = { socketPath: path, agent: this.#agent };
    // The time limit here closes the connection of an abandoned request.
    this.#api = new Dockerode({ ...way, timeout: callTimeoutMs });
    this.#patient = new Dockerode({ ...way });
  }

  /**
   * The daemon of `DOCKER_HOST`. An unusable address gives a daemon that never answers and reports the reason: the rest
   * continues.
   */
  static at(dockerHost = "", options: Pick<DaemonOptions, "readTimeoutMs"> = {}): Daemon {
    const path = socketPath(dockerHost);
    return path === undefined ? new Daemon(dockerHost, { problem: elsewhere(dockerHost) }) : new Daemon(path, options);
  }

  /**
   * The process is stopping: requests in progress are abandoned after `ms`, later reads too, and after the first
   * abandoned request no further one is sent. Streams have signals of their own.
   */
  limitUnreachableWait(ms: number): void {
    this.#isHurried = true;
    this.#readTimeoutMs = Math.min(this.#readTimeoutMs, ms);
    const pending = [...this.#pending];
    setTimeout(() => {
      for (const pendingCall of pending) pendingCall.giveUp(tooLate(ms));
    }, ms).unref();
  }

  /** Closes every connection, and abandons requests in progress. */
  [Symbol.dispose](): void {
    this.#problem ??= "the connection to the Docker daemon was closed";
    for (const { giveUp } of this.#pending) giveUp(new Error("its connection was closed"));
    this.#agent.destroy();
  }

  async isPodman(): Promise<boolean> {
    const version = JSON.stringify(await this.call((api) => api.version(), "brief"));
    return version.includes('"Podman');
  }

  /** `wait` "asAborted": for streams and for requests of any duration; the request's own signal ends it. */
  async call<T>(send: (api: Dockerode) => Promise<T>, wait: Wait = "limited"): Promise<T> {
    if (this.#problem !== undefined) throw new RuntimeUnavailable(this.#problem);
    try {
      if (wait === "asAborted") return await send(this.#patient);
      return await this.#within(wait === "brief" ? this.#readTimeoutMs : this.#callTimeoutMs, wait, send(this.#api));
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** A stream, whose beginning has the time limit of a read. `signal` ends it at any time. */
  async stream<T>(open: (api: Dockerode, signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const late = new AbortController();
    try {
      return await this.call(
        (api) => this.#within(this.#readTimeoutMs, "brief", open(api, AbortSignal.any([signal, late.signal]))),
        "asAborted",
      );
    } catch (error) {
      late.abort();
      throw error;
    }
  }

  /** Like `call`, but undefined where the daemon answers that the object does not exist. */
  async find<T>(send: (api: Dockerode) => Promise<T>, wait: Wait = "limited"): Promise<T | undefined> {
    try {
      return await this.call(send, wait);
    } catch (error) {
      if (error instanceof DaemonRefusal && error.status === 404) return undefined;
      throw error;
    }
  }

  /** Like `call`; a missing object (404), or one in the wanted state (304, 409), is success. */
  async settle(send: (api: Dockerode) => Promise<unknown>): Promise<void> {
    try {
      await this.call(send);
    } catch (error) {
      if (!(error instanceof DaemonRefusal) || ![304, 404, conflict].includes(error.status)) throw error;
    }
  }

  /** Rejects after `ms` even if the answer never settles, as one lost on its way. */
  async #within<T>(ms: number, wait: Wait, answer: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const pendingCall: PendingCall = {
      giveUp: (reason) => {
        if (this.#isHurried && wait === "brief") this.#problem ??= unreachableMessage(this.path, reason);
        reject(reason);
      },
    };
    const timer = setTimeout(() => pendingCall.giveUp(tooLate(ms)), ms);
    this.#pending.add(pendingCall);
    try {
      return await Promise.race([answer, promise]);
    } finally {
      clearTimeout(timer);
      this.#pending.delete(pendingCall);
    }
  }

  #explain(error: unknown): Error {
    if (!(error instanceof Error)) return new Error(String(error));
    if (error.name === "AbortError") return error;
    if ("statusCode" in error && typeof error.statusCode === "number") {
      const said = saidBy(error);
      return new DaemonRefusal(error.statusCode === 500 ? meantBy(said) : error.statusCode, said);
    }
    return new RuntimeUnavailable(unreachableMessage(this.path, error), { cause: error });
  }
}

function tooLate(ms: number): Error {
  return new Error(`no answer for ${ms / 1000} s`);
}

const whatToDo: Readonly<Record<string, string>> = {
  EACCES: "this user may not use it; add it to the socket's group (docker) and log in again",
  ENOENT: "there is no such socket; is Docker, or Podman's service, installed and running?",
  ECONNREFUSED: "no program listens there; is the daemon running?",
};

/** The message that a daemon does not answer, with a remedy where one is known. */
export function unreachableMessage(path: string, error: Error): string {
  const known = whatToDo[errorCode(error) ?? ""];
  return `the Docker daemon at ${path} does not answer: ${known ?? error.message}`;
}

/**
 * Docker's status for failures that Podman reports as its own: a conflict with a container's state or a name, and a
 * container that is removed while it is inspected.
 */
function meantBy(said: string): number {
  if (/container state improper|name is already in use/.test(said)) return conflict;
  return /no such (container|image|network)/.test(said) ? 404 : 500;
}

/** The daemon's own message; docker-modem wraps it as `(HTTP code 404) no such container - …`. */
function saidBy(error: Error): string {
  if ("json" in error && typeof error.json === "object" && error.json !== null && "message" in error.json) {
    return String(error.json.message);
  }
  return error.message;
}
