import type { Dispatcher } from "undici";
import { ApiError } from "../../api/errors.ts";
import type { Exchange } from "../../lib/http1/client.ts";
import type { Place } from "../admission/admission.ts";
import { toApiError } from "../answer.ts";
import type { Waiter } from "../stream-hold.ts";
import type { Leave } from "./circuits.ts";
import { BegunRefusal, errorPatienceMs } from "./begun-refusal.ts";
import { Mask, StreamMask } from "./mask.ts";
import { OutgoingBody } from "./provider-body.ts";
import { connectionFailure, isRetried, refusalFailure, type Outcome, type Progress } from "./provider-failure.ts";
import type { Provider, ProviderEvents, ProviderRequest } from "./provider.ts";

/** A provider that wants to be left alone for longer is not asked again by itself. */
const longestBackoffMs = 5000;

/**
 * One request to a provider, through all its tries.
 *
 *   queued ─▶ key ─▶ trying ─┬─ 2xx ──────────────▶ answering ─▶ settled
 *                ▲           ├─ worth a retry ─▶ backing off ─┐
 *                │           └─ any other ─────▶ settled      │
 *                └────────────────────────────────────────────┘
 */
export class ProviderCall implements Exchange, Waiter, Dispatcher.DispatchHandler {
  readonly #provider: Provider;
  readonly #events: ProviderEvents;
  readonly #onSettled: (seconds: number | undefined) => void;
  readonly #leave: (() => void) | undefined;
  /** Kept, and counted in the budget, as long as it may have to be sent again. */
  #request: (Omit<ProviderRequest, "body"> & { readonly body: OutgoingBody }) | undefined;
  #pool: Dispatcher | undefined;
  #key: string | undefined;
  #tries = 0;
  #triedAt = 0;
  #permit: Leave | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  /** A try whose error was read no further. */
  #givenUp: Dispatcher.DispatchController | undefined;
  #progress: Progress = "connecting";
  #refusal: BegunRefusal | undefined;
  #mask: StreamMask | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isPaused = false;
  #isSettled = false;

  /** `onSettled` hears once how long the last try took; undefined when there was none. */
  constructor(
    provider: Provider,
    request: ProviderRequest,
    events: ProviderEvents,
    onSettled: (seconds: number | undefined) => void,
  ) {
    this.#provider = provider;
    this.#events = events;
    this.#onSettled = onSettled;
    const body = new OutgoingBody(request.body, request.contentType);
    try {
      provider.options.budget.take(body.bytes);
    } catch (error) {
      queueMicrotask(() => this.#fail(toApiError(error), "overloaded"));
      return;
    }
    this.#request = { ...request, body };
    this.#leave = provider.limiter.enter(() => void this.#begin());
    if (this.#leave === undefined) queueMicrotask(() => this.#fail(provider.overloaded(), "overloaded"));
  }

  /** In line for one of `maxConcurrent`. */
  get isWaiting(): boolean {
    return this.place.position > 0;
  }

  get place(): Place {
    return this.#provider.placeOf(this.#leave);
  }

  pause(): void {
    this.#isPaused = true;
    if (this.#progress === "answering") this.#controller?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#progress === "answering") this.#controller?.resume();
  }

  abort(): void {
    if (this.#isSettled) return;
    this.#outcome("aborted");
    this.#settle();
    this.#controller?.abort(new Error("the client left"));
  }

  /** Ends it with a failure that is not the provider's. */
  cut(failure: ApiError): void {
    this.#fail(failure, "aborted");
  }

  async #begin(): Promise<void> {
    try {
      const key = this.#provider.key();
      this.#key = typeof key === "object" ? await key : key;
      this.#pool = await this.#provider.pool();
    } catch (error) {
      const failure = toApiError(error);
      this.#fail(failure, failure.code === "system.internal" ? "broken" : "no_key");
      return;
    }
    this.#try();
  }

  /** `last`: how the try before ended. */
  #try(last?: ApiError): void {
    const [request, pool] = [this.#request, this.#pool];
    if (this.#isSettled || request === undefined || pool === undefined) return;
    const { spec } = this.#provider.options;
    const permit = this.#provider.admit(request.model);
    if (permit instanceof ApiError) {
      this.#fail(last ?? permit, "circuit_open");
      return;
    }
    this.#tries += 1;
    this.#triedAt = performance.now();
    this.#permit = permit;
    this.#progress = "connecting";
    this.#controller = undefined;
    this.#refusal = undefined;
    const silenceMs = spec.timeoutSeconds * 1000;
    const { headers, body } = request.body.open(silenceMs, () => {
      this.#fail(
        new ApiError("dispatch.invalid_request", { message: "the upload stood still for too long" }),
        "aborted",
      );
    });
    pool.dispatch(
      {
        method: body === null ? "GET" : "POST",
        path: this.#provider.address(request.path),
        headers: {
          ...this.#provider.headers(this.#key),
          ...headers,
          accept: request.accept,
          "x-request-id": request.requestId,
        },
        body,
        headersTimeout: silenceMs,
        bodyTimeout: silenceMs,
      },
      this,
    );
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#isSettled) {
      controller.abort(new Error("the client left"));
      return;
    }
    this.#controller = controller;
    this.#progress = "waiting";
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    // 100 and 103 only announce the answer.
    if (this.#isSettled || status < 200) return;
    if (status >= 300) {
      const patienceMs = this.#provider.options.errorPatienceMs ?? errorPatienceMs;
      const head = { status, retryAfter: headers["retry-after"] };
      this.#refusal = new BegunRefusal(head, patienceMs, () => this.#endRefusal());
      return;
    }
    this.#permit?.succeed();
    this.#progress = "answering";
    this.#dropBody();
    const encoding = headers["content-encoding"];
    if (encoding !== undefined && encoding !== "identity") {
      const message = `upstream ${this.#provider.options.name} answers in an encoding that nobody asked for`;
      this.#fail(new ApiError("dispatch.upstream_failed", { message }), "broken");
      return;
    }
    this.#mask = new StreamMask(new Mask(this.#key, "answers"));
    const of = (name: string): string | undefined => {
      const value = headers[name];
      return typeof value === "string" ? new Mask(this.#key, "errors").text(value) : undefined;
    };
    if (this.#isPaused) controller.pause();
    const [contentType, contentLength] = [of("content-type"), of("content-length")];
    this.#events.onHead({ status, contentType, contentLength, isKeptAlive: true });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isSettled || controller !== this.#controller) return;
    const refusal = this.#refusal;
    if (refusal === undefined) {
      const bytes = this.#mask?.push(chunk) ?? chunk;
      if (bytes.length > 0) this.#events.onData(bytes);
      return;
    }
    if (refusal.add(chunk)) this.#endRefusal();
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.#isSettled || controller !== this.#controller) return;
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

  onResponseError(controller: Dispatcher.DispatchController | null, error: Error): void {
    // One that was given up while its error came is over already, and another try may be under way.
    if (this.#isSettled || (this.#givenUp !== undefined && controller === this.#givenUp)) return;
    this.#refusal?.drop();
    // The upload is broken, which says nothing of the provider.
    if (error instanceof ApiError) {
      this.#fail(error, "aborted");
      return;
    }
    const { name } = this.#provider.options;
    const { failure, outcome, isRetried } = connectionFailure(name, error, this.#progress);
    if (outcome !== "shortage") this.#permit?.fail(outcome, () => this.#request?.body.print);
    this.#failOrRetry(failure, outcome, isRetried);
  }

  /** No more is read of the provider's error: its connection cannot be used again. */
  #endRefusal(): void {
    const [refusal, controller] = [this.#refusal, this.#controller];
    if (this.#isSettled || refusal === undefined) return;
    this.#givenUp = controller;
    this.#controller = undefined;
    this.#refused(refusal);
    controller?.abort(new Error("enough of the error was read"));
  }

  #refused(begun: BegunRefusal): void {
    const refusal = begun.end(new Mask(this.#key, "errors"));
    const { status, retryAfter } = refusal;
    const { name, onProblem } = this.#provider.options;
    if (status === 401 || status === 403) onProblem(`the provider refused the key (${status})`, "refused");
    const failure = refusalFailure(name, refusal);
    if (status >= 500 && failure.status >= 500) this.#permit?.fail(String(status), () => this.#request?.body.print);
    else this.#permit?.succeed();
    const waitMs = /^\d+$/.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : 0;
    this.#failOrRetry(failure, String(status), isRetried(status) && waitMs <= longestBackoffMs, waitMs);
  }

  #failOrRetry(failure: ApiError, outcome: Outcome, isWorthIt: boolean, waitMs = 0): void {
    const { spec, backoffMs = 250, onRetry } = this.#provider.options;
    if (!isWorthIt || this.#request?.body.isUsedUp === true || this.#tries > spec.retries) {
      this.#fail(failure, outcome);
      return;
    }
    this.#outcome(outcome);
    onRetry();
    // Half of it by chance, so that those who failed together do not come back together.
    const pauseMs = Math.min(longestBackoffMs, backoffMs * 2 ** (this.#tries - 1)) * (0.5 + Math.random() / 2);
    this.#timer = setTimeout(() => this.#try(failure), Math.max(waitMs, pauseMs));
  }

  #fail(failure: ApiError, outcome: Outcome): void {
    if (this.#isSettled) return;
    this.#outcome(outcome);
    this.#settle();
    this.#controller?.abort(failure);
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
    this.#leave?.();
    this.#onSettled(this.#seconds);
  }

  #dropBody(): void {
    this.#provider.options.budget.give(this.#request?.body.bytes ?? 0);
    this.#request = undefined;
  }

  /** How long the last try has taken so far. */
  get #seconds(): number | undefined {
    return this.#tries === 0 ? undefined : (performance.now() - this.#triedAt) / 1000;
  }
}
