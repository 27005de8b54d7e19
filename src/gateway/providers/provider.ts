import type { LookupFunction } from "node:net";
import type { Pool } from "undici";
import { ApiError } from "../../api/errors.ts";
import type { Transport } from "../../lib/exchange.ts";
import { AnswerTooLarge, wholeAnswer } from "../../lib/whole-answer.ts";
import type { WaitReport } from "../slots/wait-report.ts";
import { SlotQueue, type QueuedRequest } from "../slots/slot-queue.ts";
import { parseForeign } from "../../lib/json.ts";
import type { CircuitState } from "./circuit.ts";
import { Circuits, type Permit } from "./circuits.ts";
import { InnerAddress } from "../../lib/inner-addresses.ts";
import type { ProviderOptions } from "./provider-options.ts";
import { Mask } from "./mask.ts";
import { openSecret, SecretError, type Secret } from "./secrets.ts";
import { UndiciTransport } from "./undici-transport.ts";

/** The remedy for a provider with such an address. */
const innerAddressNext =
  "it was written over the API while authentication was off; write the manifest by hand, switch authentication on, or start with SVC_API_EXEC=1";

/** Requests that wait for one of `maxConcurrent`: as many as at a slot. */
const queueLimit = 64;
const keepAliveMs = 30_000;
/** A shorter key may be a part of a name. Names of models are public, and kept. */
const shortestInNames = 16;
const listTimeoutMs = 15_000;
const listLimitBytes = 8 * 1024 * 1024;

/** One external provider: its connections, key, bounds and health. */
export class Provider {
  readonly options: ProviderOptions;
  /** Its name among those of slots. */
  readonly name: string;
  readonly circuits: Circuits;
  readonly queue: SlotQueue;
  readonly #base: URL;
  readonly #secret: Secret | undefined;
  #pool: Promise<Pool> | undefined;
  #requests = 0;
  #meanSeconds = 1;
  #isRetired = false;
  #onIdle: (() => void) | undefined;

  constructor(options: ProviderOptions) {
    const { spec, env, now, places } = options;
    this.options = options;
    this.name = `upstream ${options.name}`;
    this.#base = new URL(spec.baseUrl);
    this.circuits = new Circuits(now);
    const limits = { max: spec.maxConcurrent ?? Infinity, queue: queueLimit, holdMs: 0, queueMs: Infinity };
    this.queue = new SlotQueue(limits);
    this.queue.change({ kind: "open" }, limits, now());
    this.#secret =
      spec.auth.type === "none"
        ? undefined
        : openSecret(spec.auth.valueFrom, { env, now, places, readSecret: options.readSecret });
  }

  get state(): CircuitState {
    return this.circuits.state;
  }

  /** A request of a client begins, which calls `left` once. */
  entered(): void {
    this.#requests += 1;
  }

  /** `seconds`: the duration of the request's last attempt; undefined without one. */
  left(seconds: number | undefined): void {
    this.#requests -= 1;
    if (seconds !== undefined) this.#meanSeconds += (seconds - this.#meanSeconds) / 8;
    if (this.#requests === 0) this.#onIdle?.();
  }

  /** The permit for a request to that model now, or the error. */
  admit(model: string): Permit | ApiError {
    const admitted = this.circuits.admit(model);
    if (!("retryAfterMs" in admitted)) return admitted;
    const { name } = this.options;
    const headers = { "retry-after": String(Math.ceil(admitted.retryAfterMs / 1000)) };
    const message =
      admitted.of === "provider"
        ? `upstream ${name} keeps failing; it is tried again after a pause`
        : `upstream ${name} keeps failing for this model; it is tried again after a pause`;
    return new ApiError("dispatch.upstream_unavailable", { message, headers, details: { upstream: name } });
  }

  /** Returns a lease where a place is free; undefined: the request waits. Throws ApiError where the queue is full. */
  arrive(request: QueuedRequest): Disposable | undefined {
    const arrived = this.queue.arrive(request, this.options.now());
    if (arrived === "waiting") return undefined;
    if (arrived !== "admitted") throw this.failure();
    return this.acquire();
  }

  /** The lease of a request that the queue has admitted; its holder disposes it once. */
  acquire(): Disposable {
    return { [Symbol.dispose]: () => this.queue.finish() };
  }

  /** The error of a full queue. Its Retry-After is an estimate from the duration of recent requests. */
  failure(): ApiError {
    const { name, spec } = this.options;
    const turns = (this.queue.waiting + 1) / (spec.maxConcurrent ?? 1);
    const seconds = Math.min(60, Math.max(1, Math.ceil(turns * this.#meanSeconds)));
    return new ApiError("slot.overloaded", {
      message: `upstream ${name} and its queue are full`,
      details: { upstream: name },
      headers: { "retry-after": String(seconds) },
    });
  }

  waitReport(request: QueuedRequest): WaitReport {
    const position = this.queue.position(request);
    return { at: "upstream", name: this.options.name, state: "queued", position, progress: undefined };
  }

  /** Throws, or rejects with, ApiError; only `onProblem` gets the reason. */
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

  /** Why there is no usable key now, with its place; undefined: there is one, or none is needed. */
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
   * The client is loaded for the first request: a gateway without upstreams saves its 6 MiB. Rejects where it cannot be
   * loaded now, as where no file can be opened; the next request tries again.
   */
  async transport(key: string | undefined): Promise<Transport> {
    const client = await (this.#pool ??= this.#open().catch((error: unknown) => {
      this.#pool = undefined;
      throw error;
    }));
    return new UndiciTransport({ client, address: (path) => this.address(path), headers: this.headers(key) });
  }

  /** The path of a request, and what `baseUrl` adds to it. */
  address(path: string): string {
    const prefix = this.#base.pathname.replace(/\/+$/, "");
    const { search } = this.#base;
    const query = path.includes("?") ? search.replace("?", "&") : search;
    return `${prefix}${path.replace(/^\/v1(?=\/)/, "")}${query}`;
  }

  /** Headers of every request: ours, the upstream's, and the key. The client's own are never included. */
  headers(key: string | undefined): Record<string, string> {
    const { auth, headers } = this.options.spec;
    const all: Record<string, string> = { "user-agent": "berth", "accept-encoding": "identity" };
    for (const [name, value] of Object.entries(headers)) all[name.toLowerCase()] = value;
    if (key === undefined) return all;
    if (auth.type === "bearer") all["authorization"] = `Bearer ${key}`;
    if (auth.type === "header") all[auth.header.toLowerCase()] = key;
    return all;
  }

  /** The provider's own list of models, from `GET /models`. Rejects with an Error for the log. */
  async list(signal: AbortSignal): Promise<unknown> {
    const key = await this.key();
    const transport = await this.transport(key);
    const request = { method: "GET", path: "/v1/models", accept: "application/json" } as const;
    const { status, body } = await wholeAnswer(transport, request, {
      signal,
      timeoutMs: listTimeoutMs,
      limitBytes: listLimitBytes,
    }).catch((error: unknown) => {
      throw error instanceof AnswerTooLarge ? new Error("the list of models is too long") : error;
    });
    if (status !== 200) throw new Error(`the provider answered ${status} when asked for its models`);
    const list = parseForeign(new Mask(key, shortestInNames).bytes(body));
    // The parser's own message would repeat the provider's text, which may be the key.
    if (list === undefined) throw new Error("the provider's list of models is not JSON");
    return list;
  }

  /** Accepts no new requests; resolves when the running ones have ended. */
  async retire(): Promise<void> {
    if (this.#isRetired) return;
    this.#isRetired = true;
    if (this.#requests > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    await (await this.#pool)?.destroy();
  }

  /** Ends everything at once. */
  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#pool)?.destroy();
  }

  async #open(): Promise<Pool> {
    const { Pool: Client } = await import("undici");
    const { lookup } = this.options;
    return new Client(this.#base.origin, {
      connect: {
        timeout: this.options.spec.connectSeconds * 1000,
        ...(lookup === undefined ? {} : { lookup: this.#logged(lookup) }),
      },
      keepAliveTimeout: keepAliveMs,
      pipelining: 1,
    });
  }

  #logged(lookup: LookupFunction): LookupFunction {
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
