import { ExchangeError } from "../../lib/exchange.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { dropBody } from "../routing/route-request.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import { BackendAnswer } from "./backend-answer.ts";
import type { Place, Recipient } from "./recipient.ts";

/** The rest of a longer error of a backend is not read; of a slower one, what has arrived by then is reported. */
const errorLimitBytes = 65_536;
const defaultErrorMs = 10_000;

export interface SendOptions {
  readonly metrics: Pick<GatewayMetrics, "ofSlot">;
  /** Less in tests. */
  readonly errorMs?: number;
}

/**
 * Sends the request to the backend of its place, and again where that may help. Resolves with the answer once its head is there,
 * which is a success. Rejects with ApiError, with ExchangeError, or with the reason of the recipient's signal.
 */
export async function send(
  place: Place,
  to: Recipient,
  { metrics, errorMs = defaultErrorMs }: SendOptions,
): Promise<BackendAnswer> {
  for (;;) {
    const answer = new BackendAnswer({ to, place, slotMetrics: metrics.ofSlot(place.name) });
    try {
      answer.send();
      const head = await answer.head;
      // 204 brings no content, and every route asks for some.
      if (head.status >= 300 || head.status === 204) throw place.refusal(head, await errorOf(answer, errorMs));
      place.succeeded(head);
      answer.noteFirstByte();
      to.bodyDone(answer.isSent);
      dropBody(place.route);
      return answer;
    } catch (error) {
      // First: an error may have no end.
      answer[Symbol.dispose]();
      to.trace?.attemptEnded?.();
      if (await place.retry(error)) continue;
      answer.noteFirstByte();
      throw error;
    }
  }
}

/** The body of an error, or as much of it as may be read. */
async function errorOf(answer: BackendAnswer, limitMs: number): Promise<Buffer> {
  const bytes = new GatheredBytes();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, limitMs).unref();
  answer.read({
    onData: (chunk) => {
      bytes.add(chunk);
      if (bytes.size >= errorLimitBytes) resolve();
    },
    onEnd: resolve,
    // An engine's status says enough where its body breaks off.
    onError: (error) => (error instanceof ExchangeError ? resolve() : reject(error)),
  });
  try {
    await promise;
    return bytes.take();
  } finally {
    clearTimeout(timer);
    answer.unread();
  }
}
