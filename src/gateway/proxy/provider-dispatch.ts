import { ApiError } from "../../api/errors.ts";
import {
  ExchangeError,
  type Exchange,
  type ExchangeEvents,
  type RequestBody,
  type ResponseHead,
  type Transport,
} from "../../lib/exchange.ts";
import { parseForeign } from "../../lib/json.ts";
import { pause, unlessAborted } from "../../lib/on-abort.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { toApiError } from "../http/answer.ts";
import type { Permit } from "../providers/circuits.ts";
import { Mask, maskedFailure } from "../providers/mask.ts";
import {
  connectionFailure,
  canBeRetried,
  longestPauseMs,
  refusalFailure,
  requestedPauseMs,
  retryPauseMs,
  soundRetryAfter,
  type Outcome,
} from "../providers/provider-failure.ts";
import type { Provider } from "../providers/provider.ts";
import type { PreparedForProvider } from "../routing/prepare.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import { leaseOf, QueuedCall } from "./queued-call.ts";
import type { Dispatch, Recipient, ServedClient } from "./recipient.ts";

interface Failure {
  readonly failure: ApiError;
  readonly canBeRetried: boolean;
  /** The provider asks for at least this pause; 0: for none. */
  readonly pauseMs: number;
}

/** A request for a provider, whose queue it enters. */
export interface ProviderEntry {
  readonly prepared: PreparedForProvider;
  readonly provider: Provider;
}

/** The dispatch of a request to a provider, from its wait for one of `maxConcurrent` places to the end of its last attempt. */
export class ProviderDispatch implements Dispatch {
  readonly prepared: PreparedForProvider;
  readonly #provider: Provider;
  readonly #to: Recipient & ServedClient;
  readonly #metrics: Pick<GatewayMetrics, "waited">;
  /** The body to send; undefined: the request has none, or no other attempt follows. */
  #body: RequestBody | undefined;
  #lease: Disposable | undefined;
  #key: string | undefined;
  #transport: Transport | undefined;
  #permit: Permit | undefined;
  #isAnswering = false;
  #tries = 0;
  #triedAt = 0;
  #failedAt: number | undefined;
  #last: Failure | undefined;
  /** The outcome was counted; a retry clears this. */
  #isOver = false;

  constructor(
    metrics: Pick<GatewayMetrics, "waited">,
    { prepared, provider }: ProviderEntry,
    to: Recipient & ServedClient,
  ) {
    this.#metrics = metrics;
    this.prepared = prepared;
    this.#provider = provider;
    this.#to = to;
    this.#body = prepared.backendRequest.body;
    provider.entered();
  }

  get name(): string {
    return this.#provider.name;
  }

  get attempt(): Dispatch["attempt"] {
    if (this.#tries === 0) return undefined;
    return { startedAt: this.#triedAt, ms: (this.#failedAt ?? steadyNow()) - this.#triedAt };
  }

  async enter(): Promise<void> {
    const provider = this.#provider;
    const queued = new QueuedCall(this.#to, provider, { metrics: this.#metrics });
    try {
      this.#lease =
        provider.arrive(queued) ??
        (await leaseOf(
          queued.wait(() => provider.waitReport(queued)),
          this.#to.signal,
        ));
    } catch (error) {
      if (!this.#to.signal.aborted) this.#over("overloaded");
      throw error;
    }
    await unlessAborted(this.#open(), this.#to.signal);
  }

  send(events: ExchangeEvents): Exchange {
    const { options } = this.#provider;
    const transport = this.#transport;
    if (transport === undefined) throw new Error("a request is sent without a lease");
    const permit = this.#provider.admit(this.prepared.model.providerModel);
    if (permit instanceof ApiError) {
      const last = this.#last;
      this.#last = undefined;
      this.#over("circuit_open");
      throw last?.failure ?? permit;
    }
    this.#tries += 1;
    this.#triedAt = steadyNow();
    this.#failedAt = undefined;
    this.#permit = permit;
    const timeoutMs = options.spec.timeoutSeconds * 1000;
    const timeouts = { firstByteMs: timeoutMs, idleMs: timeoutMs };
    const { requestId, trace } = this.#to;
    const { method, path, accept, contentType } = this.prepared.backendRequest;
    const request = { method, path, accept, ...(contentType !== undefined && { contentType }), body: this.#body };
    return transport.send(request, { requestId, trace: trace?.forAttempt(), timeouts }, events);
  }

  heard(): void {}

  succeeded({ contentEncoding = "identity" }: ResponseHead): void {
    this.#permit?.succeed();
    this.#isAnswering = true;
    this.#body = undefined;
    if (contentEncoding === "identity") return;
    this.#over("broken");
    const message = `${this.name} answers in an encoding that was not requested`;
    throw new ApiError("dispatch.upstream_failed", { message });
  }

  refusal({ status, retryAfter }: ResponseHead, body: Buffer): ApiError {
    const { name, onProblem } = this.#provider.options;
    if (status === 401 || status === 403) onProblem(`the provider refused the key (${status})`, "refused");
    const wait = soundRetryAfter(retryAfter);
    // Parsed and written anew, so that the mask also finds a key with escapes.
    const said = parseForeign(body);
    const plain = said === undefined ? body : Buffer.from(JSON.stringify(said));
    const failure = refusalFailure(name, { status, retryAfter: wait, body: this.#mask.bytes(plain) });
    if (status >= 500 && failure.status >= 500) this.#permit?.fail(String(status));
    else this.#permit?.succeed();
    const pauseMs = requestedPauseMs(wait);
    this.#fail({ failure, canBeRetried: canBeRetried(status) && pauseMs <= longestPauseMs, pauseMs }, String(status));
    return failure;
  }

  failed(error: Error): ApiError {
    if (!(error instanceof ExchangeError)) return toApiError(error);
    const { failure, outcome, canBeRetried } = connectionFailure(this.#provider.options.name, error, this.#isAnswering);
    // Nothing was sent: the next attempt needs the permit, which may be the only one.
    if (outcome === "shortage") this.#permit?.abandon();
    else this.#permit?.fail(outcome);
    this.#fail({ failure, canBeRetried, pauseMs: 0 }, outcome);
    return failure;
  }

  answered(isWhole: boolean): void {
    if (isWhole && this.#isAnswering) this.#over("200");
  }

  masked(failure: ApiError): ApiError {
    return maskedFailure(failure, this.#mask);
  }

  async retry(error: unknown): Promise<boolean> {
    const { spec, backoffMs = 250, onRetry } = this.#provider.options;
    const last = this.#last;
    if (last === undefined || last.failure !== error || !last.canBeRetried || this.#tries > spec.retries) return false;
    this.#isOver = false;
    onRetry();
    const pauseMs = Math.max(last.pauseMs, retryPauseMs(this.#tries, backoffMs));
    await pause(pauseMs, this.#to.signal);
    return true;
  }

  [Symbol.dispose](): void {
    this.#over("aborted");
    this.#permit?.abandon();
    this.#lease?.[Symbol.dispose]();
    this.#provider.left(this.#seconds);
  }

  get #mask(): Mask {
    return new Mask(this.#key);
  }

  /** Seconds of the last attempt. */
  get #seconds(): number | undefined {
    return this.attempt === undefined ? undefined : this.attempt.ms / 1000;
  }

  async #open(): Promise<void> {
    try {
      this.#key = await this.#provider.key();
      this.#transport = await this.#provider.transport(this.#key);
    } catch (error) {
      const failure = toApiError(error);
      this.#over(failure.code === "system.internal" ? "broken" : "no_key");
      throw failure;
    }
  }

  #fail(failure: Failure, outcome: Outcome): void {
    this.#last = failure;
    this.#failedAt = steadyNow();
    this.#over(outcome);
  }

  #over(outcome: Outcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#provider.options.onOutcome(outcome, this.#seconds);
  }
}
