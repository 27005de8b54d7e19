import type { LookupFunction } from "node:net";
import type { Pool } from "undici";
import { ApiError } from "../../api/errors.ts";
import type { UpstreamSpec } from "../../api/upstream.ts";
import type { ResponseHead } from "../../lib/http1/response-parser.ts";
import type { Place } from "../admission/admission.ts";
import type { BufferBudget } from "../admission/budget.ts";
import { parseJson } from "../../lib/json.ts";
import type { CircuitState } from "./circuit.ts";
import { Circuits, type Leave } from "./circuits.ts";
import { InnerAddress, innerAddressNext } from "./inner-addresses.ts";
import { Limiter } from "./limiter.ts";
import { Mask } from "./mask.ts";
import type { ProviderBody } from "./provider-body.ts";
import { ProviderCall } from "./provider-call.ts";
import type { Outcome } from "./provider-failure.ts";
import { openSecret, SecretError, type Secret } from "./secrets.ts";

/** One request, with everything of the client's that may travel: its headers are not among it. */
export interface ProviderRequest {
  /** The provider's name for what is asked. */
  readonly model: string;
  /** As an engine has it, e.g. `/v1/chat/completions`: `baseUrl` takes the place of `/v1`. */
  readonly path: string;
  /** Absent: it is a GET. */
  readonly body?: ProviderBody | undefined;
  /** Of a body that is here; an upload says its own. */
  readonly contentType: string;
  readonly accept: string;
  readonly requestId: string;
}

/** As an engine's exchange has them; only 2xx begin with `onHead`, everything else is an error. */
export interface ProviderEvents {
  onHead(head: ResponseHead): void;
  onData(chunk: Buffer): void;
  onEnd(): void;
  /** Exactly one of `onEnd` and `onError` is called, once, never within `request`. */
  onError(failure: ApiError): void;
}

export interface ProviderOptions {
  readonly name: string;
  readonly spec: UpstreamSpec;
  readonly env: NodeJS.ProcessEnv;
  /** What bodies take as long as they are kept. */
  readonly budget: BufferBudget;
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number;
  /** One try has ended, or a request could not be tried: then without a duration. */
  readonly onOutcome: (outcome: Outcome, seconds: number | undefined) => void;
  readonly onRetry: () => void;
  /** What a person must mend: a key that is missing or not taken, an address that is refused. Never for a client. */
  readonly onProblem: (message: string, of: "key" | "refused" | "address") => void;
  /** Resolves its name for each connection, and may refuse; absent: the system's. */
  readonly lookup?: LookupFunction;
  /** Milliseconds before the first retry; doubled for each further one. */
  readonly backoffMs?: number;
  /** How long a provider may take over its error; ten seconds unless told otherwise. */
  readonly errorPatienceMs?: number;
}

/** Requests that wait where `maxConcurrent` bounds those under way: as many as at a slot. */
const queueLimit = 64;
const keepAliveMs = 30_000;
const listTimeoutMs = 15_000;
const listLimitBytes = 8 * 1024 * 1024;

/** One external provider: its connections, key, bounds and health. */
export class Provider {
  readonly options: ProviderOptions;
  readonly circuits: Circuits;
  readonly limiter: Limiter;
  readonly #base: URL;
  readonly #secret: Secret | undefined;
  #pool: Promise<Pool> | undefined;
  readonly #calls = new Set<ProviderCall>();
  #meanSeconds = 1;
  #isRetired = false;
  #onIdle: (() => void) | undefined;

  constructor(options: ProviderOptions) {
    const { spec, env, now } = options;
    this.options = options;
    this.#base = new URL(spec.baseUrl);
    this.circuits = new Circuits(now);
    this.limiter = new Limiter({ max: spec.maxConcurrent ?? Infinity, queue: queueLimit });
    this.#secret = spec.auth.type === "none" ? undefined : openSecret(spec.auth.valueFrom, { env, now });
  }

  get state(): CircuitState {
    return this.circuits.state;
  }

  /** Sends it as soon as there is a place. Failures are ApiErrors that a client may see. */
  request(request: ProviderRequest, events: ProviderEvents): ProviderCall {
    const call: ProviderCall = new ProviderCall(this, request, events, (seconds) => {
      this.#calls.delete(call);
      if (seconds !== undefined) this.#meanSeconds += (seconds - this.#meanSeconds) / 8;
      if (this.#calls.size === 0) this.#onIdle?.();
    });
    this.#calls.add(call);
    return call;
  }

  /** Leave to ask for that model now, or why not. */
  admit(model: string): Leave | ApiError {
    const admitted = this.circuits.admit(model);
    if (!("ms" in admitted)) return admitted;
    const { name } = this.options;
    const headers = { "retry-after": String(Math.ceil(admitted.ms / 1000)) };
    const message =
      admitted.of === "provider"
        ? `upstream ${name} keeps failing; it is asked again after a pause`
        : `upstream ${name} keeps failing for this model (${admitted.of.outcome}); it is asked again after a pause`;
    return new ApiError("dispatch.upstream_unavailable", { message, headers, details: { upstream: name } });
  }

  /** There is no place for one more. When there may be is an estimate from how long requests have taken. */
  overloaded(): ApiError {
    const { name, spec } = this.options;
    const turns = (this.limiter.waiting + 1) / (spec.maxConcurrent ?? 1);
    const seconds = Math.min(60, Math.max(1, Math.ceil(turns * this.#meanSeconds)));
    return new ApiError("slot.overloaded", {
      message: `upstream ${name} and its queue are full`,
      details: { upstream: name },
      headers: { "retry-after": String(seconds) },
    });
  }

  /** Where one stands that waits for its turn; `leave` is what the limiter gave it. */
  placeOf(leave: (() => void) | undefined): Place {
    const position = leave === undefined ? 0 : this.limiter.position(leave);
    return { at: "upstream", name: this.options.name, state: "queued", position, progress: undefined };
  }

  /** Throws, or rejects with, ApiError; the reason is told to `onProblem` alone. */
  key(): string | undefined | Promise<string> {
    if (this.#secret === undefined) return undefined;
    try {
      const key = this.#secret.read();
      if (typeof key === "string") return key;
      return key.catch((error: unknown) => {
        throw this.#keyFailure(error);
      });
    } catch (error) {
      throw this.#keyFailure(error);
    }
  }

  /** Why there is no key that could be used now, with its place; undefined: there is, or none is needed. */
  async keyProblem(): Promise<string | undefined> {
    try {
      await this.#secret?.read();
      return undefined;
    } catch (error) {
      if (error instanceof SecretError) return error.message;
      throw error;
    }
  }

  /**
   * The client is loaded for the first request: a gateway without upstreams spares its 6 MiB. Rejects where it cannot be
   * loaded now, as where no file can be opened; the next request tries again.
   */
  pool(): Promise<Pool> {
    return (this.#pool ??= this.#open().catch((error: unknown) => {
      this.#pool = undefined;
      throw error;
    }));
  }

  /** The path of a request, and what `baseUrl` adds to it. */
  address(path: string): string {
    const prefix = this.#base.pathname.replace(/\/+$/, "");
    const { search } = this.#base;
    const query = path.includes("?") ? search.replace("?", "&") : search;
    return `${prefix}${path.replace(/^\/v1(?=\/)/, "")}${query}`;
  }

  /** Headers of every request: ours, the upstream's, and the key. The client's own never come here. */
  headers(key: string | undefined): Record<string, string> {
    const { auth, headers } = this.options.spec;
    const all: Record<string, string> = { "user-agent": "berth", "accept-encoding": "identity" };
    for (const [name, value] of Object.entries(headers)) all[name.toLowerCase()] = value;
    if (key === undefined) return all;
    if (auth.type === "bearer") all["authorization"] = `Bearer ${key}`;
    if (auth.type === "header") all[auth.header.toLowerCase()] = key;
    return all;
  }

  /** The provider's own list of models, as it answers `GET /models`. Rejects with an Error for the log. */
  async list(signal: AbortSignal): Promise<unknown> {
    const key = await this.key();
    const pool = await this.pool();
    const { statusCode, body } = await pool.request({
      method: "GET",
      path: this.address("/v1/models"),
      headers: { ...this.headers(key), accept: "application/json" },
      headersTimeout: listTimeoutMs,
      bodyTimeout: listTimeoutMs,
      signal,
    });
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of body) {
      const bytes: Buffer = Buffer.from(chunk);
      size += bytes.length;
      if (size > listLimitBytes) throw new Error("the list of models is too long");
      chunks.push(bytes);
    }
    if (statusCode !== 200) throw new Error(`the provider answered ${statusCode} when asked for its models`);
    // Names of models are shown to everybody, and kept.
    const list = parseJson(new Mask(key, "answers").bytes(Buffer.concat(chunks)));
    // The parser's own words would repeat what the provider said, which may be the key.
    if (list === undefined) throw new Error("the provider's list of models is not JSON");
    return list;
  }

  /** Takes no new requests from now on by its owner's word; resolves when those under way are over. */
  async retire(): Promise<void> {
    if (this.#isRetired) return;
    this.#isRetired = true;
    if (this.#calls.size > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    await (await this.#pool)?.destroy();
  }

  /** Ends everything at once. */
  async [Symbol.asyncDispose](): Promise<void> {
    const failure = new ApiError("dispatch.upstream_unavailable", { message: "the gateway is stopping" });
    for (const call of this.#calls) call.cut(failure);
    await (await this.#pool)?.destroy();
  }

  async #open(): Promise<Pool> {
    const { Pool: Client } = await import("undici");
    const { lookup } = this.options;
    return new Client(this.#base.origin, {
      connect: {
        timeout: this.options.spec.connectSeconds * 1000,
        ...(lookup === undefined ? {} : { lookup: this.#told(lookup) }),
      },
      keepAliveTimeout: keepAliveMs,
      pipelining: 1,
    });
  }

  #told(lookup: LookupFunction): LookupFunction {
    return (name, options, done) => {
      lookup(name, options, (error, ...found) => {
        if (error instanceof InnerAddress) this.options.onProblem(`${error.message}: ${innerAddressNext}`, "address");
        done(error, ...found);
      });
    };
  }

  #keyFailure(error: unknown): ApiError {
    if (!(error instanceof SecretError)) throw error;
    const { name } = this.options;
    this.options.onProblem(error.message, "key");
    const message = `upstream ${name} has no usable key; the gateway's log names the reason`;
    return new ApiError("dispatch.upstream_failed", { message, details: { upstream: name }, cause: error });
  }
}
