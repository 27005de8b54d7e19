import { ExchangeError, type Exchange, type ExchangeEvents } from "../../../lib/exchange.ts";
import { toApiError } from "../../http/answer.ts";
import { answerText, generate, type GenerateOptions, type ImagePlan } from "./images.ts";

/**
 * Has the engine draw the plan, with the events of one HTTP exchange, so that it is held, queued and relayed like any
 * other request. The ExchangeError of an engine that was not reached has the phase `connect` or `shortage`: nothing was
 * sent. Aborting interrupts the engine. Where `plan` throws, the exchange fails.
 */
export function drawImages(
  plan: () => ImagePlan,
  options: Omit<GenerateOptions, "signal">,
  events: ExchangeEvents,
): Exchange {
  return new Drawing(plan, options, events);
}

class Drawing implements Exchange {
  readonly #events: ExchangeEvents;
  readonly #client = new AbortController();
  #pause: PromiseWithResolvers<void> | undefined;

  constructor(plan: () => ImagePlan, options: Omit<GenerateOptions, "signal">, events: ExchangeEvents) {
    this.#events = events;
    this.#run(plan, options).catch((error: unknown) => {
      if (!this.#client.signal.aborted) events.onError(error instanceof ExchangeError ? error : toApiError(error));
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
