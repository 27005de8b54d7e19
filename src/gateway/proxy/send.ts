import type { ApiError } from "../../api/errors.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { engineRefusal, engineWords } from "../relay/engine-failure.ts";
import type { SlotRoute } from "../routing/route-request.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import { BackendAnswer } from "./backend-answer.ts";
import type { Place } from "./place.ts";
import type { Recipient } from "./recipient.ts";

/** The rest of a longer error of an engine is not read; of a slower one, what has arrived by then is reported. */
const errorLimitBytes = 65_536;
const errorLimitMs = 10_000;

interface Asked {
  readonly request: Pick<SlotRoute["request"], "body">;
  readonly backendRequest: Pick<SlotRoute["backendRequest"], "format">;
}

/**
 * Sends the request to the engine of its place, and again where that one cannot be reached. Resolves with the answer once its
 * head is there, which is a success. Rejects with ApiError, with ExchangeError, or with the reason of the recipient's signal.
 */
export async function send(
  place: Place,
  to: Recipient,
  metrics: Pick<GatewayMetrics, "ofSlot">,
): Promise<BackendAnswer> {
  for (;;) {
    const { backendRequest, slot } = place.route;
    const { served } = backendRequest;
    const answer = new BackendAnswer({ to, served, place, slotMetrics: metrics.ofSlot(slot.name) });
    try {
      start(answer, place, to);
      await success(answer, place.route);
      to.bodyDone(answer.exchange?.isSent === true);
      place.route.request.drop?.();
      backendRequest.drop?.();
      return answer;
    } catch (error) {
      using ended = answer;
      if (!(await place.retry(error))) throw error;
      ended.close();
    }
  }
}

function start(answer: BackendAnswer, { route, backend }: Place, { requestId, trace }: Recipient): void {
  if (backend === undefined) throw new Error("a request is sent without a place");
  const { slot, backendRequest } = route;
  const { firstByte, idle } = slot.spec.timeoutSeconds;
  const timeouts = { firstByteMs: firstByte * 1000, idleMs: idle * 1000 };
  const to = { transport: backend.pool, endpoint: backend.endpoint, requestId, trace, timeouts };
  answer.start(backendRequest.exchange?.(to, answer) ?? to.transport.send(backendRequest, to, answer));
}

/** Waits for the head of a success. Rejects with the engine's refusal, in our words, and as `BackendAnswer.head`. */
export async function success(answer: BackendAnswer, { request, backendRequest }: Asked): Promise<void> {
  const { status } = await answer.head;
  if (status < 300) return;
  const body = await errorOf(answer);
  const { translation } = backendRequest.format;
  const refusal: ApiError = translation?.refusal?.(status, body) ?? engineRefusal(status, body, request.body);
  refusal.engineText ??= engineWords(status, body);
  throw refusal;
}

/** The body of an error, or as much of it as may be read. */
async function errorOf(answer: BackendAnswer): Promise<Buffer> {
  const bytes = new GatheredBytes();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, errorLimitMs).unref();
  answer.read({
    onData: (chunk) => {
      bytes.add(chunk);
      if (bytes.size >= errorLimitBytes) resolve();
    },
    onEnd: resolve,
    onError: reject,
  });
  try {
    await promise;
    return bytes.take();
  } finally {
    clearTimeout(timer);
    answer.unread();
  }
}
