import Dockerode from "dockerode";
import { errorCode } from "../../lib/error-code.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
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
export class Daemon {
  readonly path: string;
  readonly #api: Dockerode;
  readonly #patient: Dockerode;
  readonly #briefMs: number;
  readonly #problem: string | undefined;

  constructor(
    path: string,
    { silenceMs = 60_000, briefMs = Math.min(silenceMs, 15_000), problem }: DaemonOptions = {},
  ) {
    this.path = path;
    this.#problem = problem;
    this.#briefMs = briefMs;
    this.#api = new Dockerode({ socketPath: path, timeout: silenceMs });
    this.#patient = new Dockerode({ socketPath: path });
  }

  /** The one that `DOCKER_HOST` names. One that cannot be ours never answers, and says why: the rest goes on. */
  static at(dockerHost = ""): Daemon {
    const path = socketPath(dockerHost);
    return path === undefined ? new Daemon(dockerHost, { problem: elsewhere(dockerHost) }) : new Daemon(path);
  }

  async isPodman(): Promise<boolean> {
    const { Components: components } = await this.ask((api) => api.version(), "brief");
    return components.some(({ Name: name }) => name.startsWith("Podman"));
  }

  /** `wait` "asAborted": for streams and for what takes as long as it takes; the question's own signal ends it. */
  async ask<T>(question: (api: Dockerode) => Promise<T>, wait: Wait = "limited"): Promise<T> {
    if (this.#problem !== undefined) throw new RuntimeUnavailable(this.#problem);
    try {
      if (wait === "brief") return await within(this.#briefMs, question(this.#api));
      return await question(wait === "limited" ? this.#api : this.#patient);
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** A stream, whose beginning is waited for no longer than an answer to a look. `signal` ends it at any time. */
  async stream<T>(open: (api: Dockerode, signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const late = new AbortController();
    try {
      return await this.ask(
        (api) => within(this.#briefMs, open(api, AbortSignal.any([signal, late.signal]))),
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

/** Rejects after `ms` whatever becomes of the answer: one that was lost on its way never settles. */
async function within<T>(ms: number, answer: Promise<T>): Promise<T> {
  const { promise: tooLate, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no word for ${ms / 1000} s`)), ms);
  try {
    return await Promise.race([answer, tooLate]);
  } finally {
    clearTimeout(timer);
  }
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
