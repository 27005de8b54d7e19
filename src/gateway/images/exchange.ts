import { ApiError } from "../../api/errors.ts";
import { ExchangeError, type Exchange, type ExchangeEvents } from "../../lib/http1/client.ts";
import { toApiError } from "../answer.ts";
import { generate, type GenerateOptions, type ImagePlan } from "./images.ts";

/** What an exchange that is more than one HTTP call tells: also failures that are no connection's. */
interface DrawingEvents extends Omit<ExchangeEvents, "onError"> {
  onError(error: ExchangeError | ApiError): void;
}

/**
 * Has the engine draw what was planned, and tells of it as of one HTTP exchange, so that it is held, queued and
 * relayed like any other request. An engine that was not reached is an ExchangeError of phase `connect`: nothing was
 * sent. Aborting interrupts the engine.
 */
export function drawImages(plan: ImagePlan, options: Omit<GenerateOptions, "signal">, events: DrawingEvents): Exchange {
  const client = new AbortController();
  generate(plan, { ...options, signal: client.signal }).then(
    (answer) => {
      if (client.signal.aborted) return;
      events.onHead({ status: 200, headers: new Map([["content-type", "application/json"]]), isKeptAlive: true });
      events.onData(Buffer.from(JSON.stringify(answer)));
      events.onEnd();
    },
    (error: unknown) => {
      if (!client.signal.aborted) events.onError(failureOf(error));
    },
  );
  return { pause: nothing, resume: nothing, abort: () => client.abort() };
}

/** The answer is one small JSON text that is there all at once: there is nothing to hold back. */
const nothing = (): void => undefined;

function failureOf(error: unknown): ExchangeError | ApiError {
  const failure = toApiError(error);
  return failure.code === "dispatch.upstream_unavailable" ? new ExchangeError("connect", failure.message) : failure;
}
