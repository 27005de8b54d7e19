import { ApiError } from "../../api/errors.ts";
import { ExchangeError, type Exchange, type ExchangeEvents } from "../../lib/http1/client.ts";
import { toApiError } from "../answer.ts";
import { answerText, generate, type GenerateOptions, type ImagePlan } from "./images.ts";

/** What an exchange that is more than one HTTP call tells: also failures that are no connection's. */
interface DrawingEvents extends Omit<ExchangeEvents, "onError"> {
  onError(error: ExchangeError | ApiError): void;
}

/**
 * Has the engine draw what was planned, and tells of it as of one HTTP exchange, so that it is held, queued and
 * relayed like any other request. An engine that was not reached is an ExchangeError of phase `connect`: nothing was
 * sent. Aborting interrupts the engine. Where `plan` throws, the exchange fails: who waited in line must not make
 * whoever lets it in fail.
 */
export function drawImages(
  plan: () => ImagePlan,
  options: Omit<GenerateOptions, "signal">,
  events: DrawingEvents,
): Exchange {
  return new Drawing(plan, options, events);
}

class Drawing implements Exchange {
  readonly #events: DrawingEvents;
  readonly #client = new AbortController();
  #pause: PromiseWithResolvers<void> | undefined;

  constructor(plan: () => ImagePlan, options: Omit<GenerateOptions, "signal">, events: DrawingEvents) {
    this.#events = events;
    this.#run(plan, options).catch((error: unknown) => {
      if (!this.#client.signal.aborted) events.onError(failureOf(error));
    });
  }

  pause(): void {
    this.#pause ??= Promise.withResolvers();
  }

  resume(): void {
    this.#pause?.resolve();
    this.#pause = undefined;
  }

  abort(): void {
    this.#client.abort();
    this.resume();
  }

  async #run(plan: () => ImagePlan, options: Omit<GenerateOptions, "signal">): Promise<void> {
    const { signal } = this.#client;
    const drawn = await generate(plan(), { ...options, signal });
    if (signal.aborted) return;
    const head = { status: 200, contentType: "application/json", contentLength: undefined, isKeptAlive: true };
    this.#events.onHead(head);
    for (const piece of answerText(drawn)) {
      this.#events.onData(piece);
      await this.#pause?.promise;
      if (signal.aborted) return;
    }
    this.#events.onEnd();
  }
}

function failureOf(error: unknown): ExchangeError | ApiError {
  const failure = toApiError(error);
  return failure.code === "dispatch.upstream_unavailable" ? new ExchangeError("connect", failure.message) : failure;
}
