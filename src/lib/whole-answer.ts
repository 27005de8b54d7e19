import { ExchangeError, type ExchangeRequest, type SendOptions, type Transport } from "./exchange.ts";

export interface WholeAnswer {
  readonly status: number;
  readonly body: Buffer;
}

interface WholeAnswerOptions extends Omit<SendOptions, "timeouts" | "isOnce"> {
  readonly signal?: AbortSignal | undefined;
  /** For all of it. */
  readonly timeoutMs: number;
  /** A longer answer is AnswerTooLarge. */
  readonly limitBytes: number;
  /** Whether the rest of a longer answer is dropped instead. */
  readonly isCut?: boolean;
}

export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge";
}

/**
 * One request that is sent once, and its complete answer, whatever the status. Rejects as an exchange
 * does, with AnswerTooLarge, and with the signal's reason once it is aborted.
 */
export async function wholeAnswer(
  transport: Transport,
  request: ExchangeRequest,
  { signal, timeoutMs, limitBytes, isCut, ...sent }: WholeAnswerOptions,
): Promise<WholeAnswer> {
  signal?.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<WholeAnswer>();
  const chunks: Buffer[] = [];
  let size = 0;
  let status = 0;
  const exchange = transport.send(
    request,
    { ...sent, timeouts: { firstByteMs: 0, idleMs: 0 }, isOnce: true },
    {
      onHead: (head) => (status = head.status),
      onData(chunk) {
        size += chunk.length;
        if (size <= limitBytes) chunks.push(chunk);
        else if (isCut !== true) fail(new AnswerTooLarge("the answer is too large"));
      },
      onEnd: () => resolve({ status, body: Buffer.concat(chunks) }),
      onError: reject,
    },
  );
  function fail(error: unknown): void {
    exchange.abort();
    reject(error);
  }
  const late = (): void => fail(new ExchangeError("timeout", "no complete answer in time"));
  // A busy process must not take its own delay for the other's: an answer that has arrived is read before.
  let turn: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => (turn = setImmediate(late)), timeoutMs);
  const onAbort = (): void => fail(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    clearImmediate(turn);
    signal?.removeEventListener("abort", onAbort);
  }
}
