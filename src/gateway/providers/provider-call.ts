import { ApiError } from "../../api/errors.ts";
import {
  ExchangeError,
  type Exchange,
  type ExchangeEvents,
  type ResponseHead,
  type Transport,
} from "../../lib/exchange.ts";
import type { WaitPlace } from "../slots/admission.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { toApiError } from "../http/answer.ts";
import type { QueuedClient, SlotQueue } from "../slots/slot-queue.ts";
import type { Permit } from "./circuits.ts";
import { BegunRefusal, defaultErrorTimeoutMs } from "./begun-refusal.ts";
import { Mask, StreamMask } from "./mask.ts";
import { OutgoingBody } from "./provider-body.ts";
import { connectionFailure, isRetried, refusalFailure, type Outcome } from "./provider-failure.ts";
import type { ProviderOptions, ProviderRequest } from "./provider-options.ts";
import { QueuePlace } from "./queue-place.ts";
import { longestPauseMs, requestedPauseMs, retryPauseMs } from "./retry-pause.ts";

/** The parts of a provider that a call uses. */
export interface CallingProvider {
  readonly options: ProviderOptions;
  readonly queue: SlotQueue<ProviderCall>;
  /** The permit for a request to that model now, or the error. */
  admit(model: string): Permit | ApiError;
  /** The error of a full queue. */
  overloaded(): ApiError;
  /** The place of a waiting request, as it may be reported. */
  placeOf(call: ProviderCall): WaitPlace;
  /** Throws, or rejects with, ApiError. */
  key(): string | undefined | Promise<string>;
  transport(key: string | undefined): Promise<Transport>;
  /** Called once by each call, with the duration of its last attempt; undefined without one. */
  settled(call: ProviderCall, seconds: number | undefined): void;
}

/**
 * One request to a provider, through all its attempts.
 *
 *   queued ─▶ key ─▶ trying ─┬─ 2xx ──────────────▶ answering ─▶ settled
 *                ▲           ├─ worth a retry ─▶ backing off ─┐
 *                │           └─ any other ─────▶ settled      │
 *                └────────────────────────────────────────────┘
 */
export class ProviderCall implements Exchange, ExchangeEvents, QueuedClient {
  denseIndex = -1;
  readonly client: string;
  readonly #provider: CallingProvider;
  readonly #events: ExchangeEvents;
  readonly #queuePlace: QueuePlace<ProviderCall>;
  /** Kept, and counted in the budget, as long as it may have to be sent again. */
  #request: (Omit<ProviderRequest, "body"> & { readonly body: OutgoingBody }) | undefined;
  #transport: Transport | undefined;
  #key: string | undefined;
  #tries = 0;
  #triedAt = 0;
  #failedAt: number | undefined;
  #permit: Permit | undefined;
  /** The exchange of this attempt. */
  #exchange: Exchange | undefined;
  #isAnswering = false;
  #refusal: BegunRefusal | undefined;
  #mask: StreamMask | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isPaused = false;
  #isSettled = false;

  constructor(provider: CallingProvider, request: ProviderRequest, events: ExchangeEvents) {
    this.#provider = provider;
    this.#events = events;
    this.#queuePlace = new QueuePlace(provider.queue, this, request.onWaited);
    this.client = request.client ?? "";
    const body = new OutgoingBody(request.body);
    try {
      provider.options.budget.take(body.bytes);
    } catch (error) {
      queueMicrotask(() => this.#fail(toApiError(error), "overloaded"));
      return;
    }
    this.#request = { ...request, body };
    const outcome = provider.queue.arrive(this, provider.options.now());
    if (outcome === "admitted") this.onAdmitted();
    else if (outcome === "waiting") this.#queuePlace.wait();
    else queueMicrotask(() => this.onRefused());
  }

  /** The last attempt, by the steady clock; undefined: nothing was sent. */
  get attempt(): { readonly startedAt: number; readonly ms: number } | undefined {
    if (this.#tries === 0) return undefined;
    return { startedAt: this.#triedAt, ms: (this.#failedAt ?? steadyNow()) - this.#triedAt };
  }

  get hasBegun(): boolean {
    return this.#request?.answer?.hasBegun === true;
  }

  /** In the queue for one of `maxConcurrent`. */
  get isWaiting(): boolean {
    return this.#queuePlace.isWaiting;
  }

  get place(): WaitPlace {
    return this.#provider.placeOf(this);
  }

  /** The turn of this request has come. */
  onAdmitted(): void {
    this.#queuePlace.admitted();
    queueMicrotask(() => void this.#begin());
  }

  /** The queue is full, or a client with fewer requests took its last place. */
  onRefused(): void {
    this.#queuePlace.refused();
    this.#fail(this.#provider.overloaded(), "overloaded");
  }

  pause(): void {
    this.#isPaused = true;
    if (this.#isAnswering) this.#exchange?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#isAnswering) this.#exchange?.resume();
  }

  abort(): void {
    if (this.#isSettled) return;
    this.#outcome("aborted");
    this.#settle();
    this.#exchange?.abort();
  }

  /** Ends it with a failure that is not the provider's. */
  cut(failure: ApiError): void {
    this.#fail(failure, "aborted");
  }

  async #begin(): Promise<void> {
    if (this.#isSettled) return;
    try {
      const key = this.#provider.key();
      this.#key = typeof key === "object" ? await key : key;
      this.#transport = await this.#provider.transport(this.#key);
    } catch (error) {
      const failure = toApiError(error);
      this.#fail(failure, failure.code === "system.internal" ? "broken" : "no_key");
      return;
    }
    this.#try();
  }

  /** `last`: the failure of the previous attempt. */
  #try(last?: ApiError): void {
    const [request, transport] = [this.#request, this.#transport];
    if (this.#isSettled || request === undefined || transport === undefined) return;
    const permit = this.#provider.admit(request.model);
    if (permit instanceof ApiError) {
      this.#fail(last ?? permit, "circuit_open");
      return;
    }
    this.#tries += 1;
    this.#triedAt = steadyNow();
    this.#failedAt = undefined;
    this.#permit = permit;
    this.#refusal = undefined;
    const timeoutMs = this.#provider.options.spec.timeoutSeconds * 1000;
    const { requestId, trace, body } = request;
    const timeouts = { firstByteMs: timeoutMs, idleMs: timeoutMs };
    this.#exchange = transport.send({ ...request, body: body.sent }, { requestId, trace, timeouts }, this);
  }

  /** Takes the head of one attempt's answer: the client gets only a successful answer. */
  onHead({ status, contentType, contentLength, retryAfter, contentEncoding = "identity" }: ResponseHead): void {
    if (this.#isSettled) return;
    if (status >= 300) {
      const errorTimeoutMs = this.#provider.options.errorTimeoutMs ?? defaultErrorTimeoutMs;
      this.#refusal = new BegunRefusal({ status, retryAfter }, errorTimeoutMs, () => this.#endRefusal());
      return;
    }
    this.#permit?.succeed();
    this.#isAnswering = true;
    this.#dropBody();
    if (contentEncoding !== "identity") {
      const message = `upstream ${this.#provider.options.name} answers in an encoding that was not requested`;
      this.#fail(new ApiError("dispatch.upstream_failed", { message }), "broken");
      return;
    }
    this.#mask = new StreamMask(new Mask(this.#key, "answers"));
    if (this.#isPaused) this.#exchange?.pause();
    const type = contentType === undefined ? undefined : new Mask(this.#key, "errors").text(contentType);
    // The length is the number of bytes that follow: a key of digits is not hidden in it.
    this.#events.onHead({ status, contentType: type, contentLength, isKeptAlive: true });
  }

  onData(chunk: Buffer): void {
    if (this.#isSettled) return;
    if (this.#refusal !== undefined) {
      if (this.#refusal.add(chunk)) this.#endRefusal();
      return;
    }
    const bytes = this.#mask?.push(chunk) ?? chunk;
    if (bytes.length > 0) this.#events.onData(bytes);
  }

  onEnd(): void {
    if (this.#isSettled) return;
    if (this.#refusal !== undefined) {
      this.#refused(this.#refusal);
      return;
    }
    const rest = this.#mask?.end();
    if (rest !== undefined) this.#events.onData(rest);
    this.#outcome("200");
    this.#settle();
    this.#events.onEnd();
  }

  onError(error: Error): void {
    if (this.#isSettled) return;
    this.#refusal?.drop();
    // The upload is broken, which says nothing about the provider.
    if (!(error instanceof ExchangeError)) {
      this.#fail(toApiError(error), "aborted");
      return;
    }
    const { failure, outcome, isRetried } = connectionFailure(this.#provider.options.name, error, this.#isAnswering);
    // Nothing was sent: the next attempt needs the permit, which may be the only one.
    if (outcome === "shortage") this.#permit?.abandon();
    else this.#permit?.fail(outcome, () => this.#request?.body.print);
    this.#failOrRetry(failure, outcome, isRetried);
  }

  /** The rest of the provider's error is not read: its connection cannot be used again. */
  #endRefusal(): void {
    if (this.#isSettled || this.#refusal === undefined) return;
    this.#exchange?.abort();
    this.#refused(this.#refusal);
  }

  #refused(begun: BegunRefusal): void {
    const refusal = begun.end(new Mask(this.#key, "errors"));
    const { status, retryAfter } = refusal;
    const { name, onProblem } = this.#provider.options;
    if (status === 401 || status === 403) onProblem(`the provider refused the key (${status})`, "refused");
    const failure = refusalFailure(name, refusal);
    if (status >= 500 && failure.status >= 500) this.#permit?.fail(String(status), () => this.#request?.body.print);
    else this.#permit?.succeed();
    const waitMs = requestedPauseMs(retryAfter);
    this.#failOrRetry(failure, String(status), isRetried(status) && waitMs <= longestPauseMs, waitMs);
  }

  #failOrRetry(failure: ApiError, outcome: Outcome, isWorthIt: boolean, waitMs = 0): void {
    const { spec, backoffMs = 250, onRetry } = this.#provider.options;
    if (!isWorthIt || this.#request?.body.isUsedUp === true || this.#tries > spec.retries) {
      this.#fail(failure, outcome);
      return;
    }
    this.#outcome(outcome);
    onRetry();
    this.#failedAt = steadyNow();
    this.#timer = setTimeout(() => this.#try(failure), Math.max(waitMs, retryPauseMs(this.#tries, backoffMs)));
  }

  #fail(failure: ApiError, outcome: Outcome): void {
    if (this.#isSettled) return;
    this.#outcome(outcome);
    this.#settle();
    this.#exchange?.abort();
    this.#events.onError(failure);
  }

  #outcome(outcome: Outcome): void {
    this.#provider.options.onOutcome(outcome, this.#seconds);
  }

  #settle(): void {
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.#refusal?.drop();
    this.#permit?.abandon();
    this.#dropBody();
    this.#queuePlace.leave();
    this.#provider.settled(this, this.#seconds);
  }

  #dropBody(): void {
    this.#provider.options.budget.give(this.#request?.body.bytes ?? 0);
    this.#request = undefined;
  }

  /** The last attempt's. */
  get #seconds(): number | undefined {
    return this.attempt === undefined ? undefined : this.attempt.ms / 1000;
  }
}
