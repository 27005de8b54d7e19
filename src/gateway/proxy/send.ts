import { ExchangeError, type Exchange, type ExchangeEvents, type ResponseHead } from "../../lib/exchange.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { onAbort } from "../../lib/on-abort.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { AnswerMeter } from "../relay/answer-usage.ts";
import { dropBody } from "../routing/prepare.ts";
import type { GatewayMetrics, SlotMetrics } from "../telemetry/metrics.ts";
import type { Dispatch, Recipient } from "./recipient.ts";

/** Bytes that are read of a backend's error. */
const errorLimitBytes = 65_536;
/** Milliseconds for a backend's error to arrive; then the part that has arrived is reported. */
const defaultErrorMs = 10_000;

export interface AttemptOptions {
  readonly metrics: Pick<GatewayMetrics, "ofSlot">;
  /** Less in tests. */
  readonly errorMs?: number;
}

/**
 * Sends the request to its backend, and again where that may help. Resolves with the answer once the head of a success has come.
 * Rejects with ApiError, with ExchangeError, or with the reason of the recipient's signal.
 */
export async function send(
  dispatch: Dispatch,
  to: Recipient,
  { metrics, errorMs = defaultErrorMs }: AttemptOptions,
): Promise<BackendAnswer> {
  for (;;) {
    const answer = new BackendAnswer(dispatch, to, metrics.ofSlot(dispatch.name));
    try {
      answer.send();
      const head = await answer.head;
      // 204 brings no content, and every route asks for some.
      if (head.status >= 300 || head.status === 204) throw dispatch.refusal(head, await errorOf(answer, errorMs));
      dispatch.succeeded(head);
      answer.noteFirstByte();
      to.bodyDone(answer.isSent);
      dropBody(dispatch.prepared);
      return answer;
    } catch (error) {
      // Before the pause of a retry: the error's body may never end.
      answer[Symbol.dispose]();
      to.trace?.attemptEnded?.();
      if (await dispatch.retry(error)) continue;
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

/** The reader of an answer after its head. */
export type AnswerReader = Omit<ExchangeEvents, "onHead">;

/**
 * One backend's answer as it arrives: `head` is a promise; the rest goes to a reader, and is kept until there is one. Disposing
 * the answer ends the exchange, and records the backend's tokens and time.
 */
export class BackendAnswer implements ExchangeEvents, Disposable {
  readonly meter = new AnswerMeter();
  readonly #to: Recipient;
  readonly #dispatch: Dispatch;
  readonly #slotMetrics: SlotMetrics;
  readonly #head = Promise.withResolvers<ResponseHead>();
  readonly #abort: Disposable;
  /** Whether the kernel had all bytes of the request when the head came. */
  isSent = false;
  #headAt: number | undefined;
  #exchange: Exchange | undefined;
  #reader: AnswerReader | undefined;
  #early: Buffer[] = [];
  /** Undefined while more may come; null: whole, or disposed. */
  #end: Error | null | undefined;
  #tokens: TokenTimes | undefined;

  constructor(dispatch: Dispatch, to: Recipient, slotMetrics: SlotMetrics) {
    this.#dispatch = dispatch;
    this.#to = to;
    this.#slotMetrics = slotMetrics;
    this.#abort = onAbort(to.signal, (reason) => this.#cut(reason));
  }

  /** Rejects with ExchangeError where there is no answer, and with the reason for which its recipient is cancelled. */
  get head(): Promise<ResponseHead> {
    return this.#head.promise;
  }

  get exchange(): Exchange | undefined {
    return this.#exchange;
  }

  /** Makes one attempt. Throws ApiError where none is to be made now. */
  send(): void {
    if (this.#end === undefined) this.#exchange = this.#dispatch.send(this);
  }

  /** From now on the reader gets what comes, and first what has come already. */
  read(reader: AnswerReader): void {
    this.#reader = reader;
    while (this.#reader === reader) {
      const chunk = this.#early.shift();
      if (chunk === undefined) break;
      reader.onData(chunk);
    }
    if (this.#end === undefined || this.#reader !== reader) return;
    if (this.#end === null) reader.onEnd();
    else reader.onError(this.#end);
  }

  /** The reader wants no more; what comes is kept for the next one. */
  unread(): void {
    this.#reader = undefined;
  }

  /** Tells clients when the first byte came; for the last attempt only. */
  noteFirstByte(): void {
    if (this.#headAt === undefined) return;
    for (const client of this.#to.clients) client.noteFirstByte(this.#headAt);
  }

  /** Tokens of a stream have arrived. */
  noteTokens(count: number): void {
    if (this.#tokens === undefined) for (const client of this.#to.clients) client.noteFirstToken();
    this.#tokens ??= new TokenTimes(this.#slotMetrics);
    this.#tokens.arrived(count);
  }

  onHead(head: ResponseHead): void {
    this.#dispatch.heard();
    this.#headAt = performance.now();
    // Now: a short answer may end before its head is read.
    this.isSent = this.#exchange?.isSent === true;
    this.#head.resolve(head);
  }

  onData(chunk: Buffer): void {
    if (this.#end !== undefined) return;
    this.#dispatch.heard();
    if (this.#reader === undefined) this.#early.push(chunk);
    else this.#reader.onData(chunk);
  }

  onEnd(): void {
    if (this.#end !== undefined) return;
    this.#end = null;
    this.#reader?.onEnd();
  }

  onError(error: Error): void {
    if (this.#end !== undefined) return;
    this.#fail(this.#dispatch.failed(error));
  }

  [Symbol.dispose](): void {
    this.#note();
    this.#abort[Symbol.dispose]();
    this.#reader = undefined;
    this.#early = [];
    if (this.#end !== undefined) return;
    this.#end = null;
    this.#exchange?.abort();
  }

  #cut(reason: unknown): void {
    if (this.#end !== undefined) return;
    this.#exchange?.abort();
    this.#fail(reason instanceof Error ? reason : new Error(String(reason)));
  }

  #fail(error: Error): void {
    this.#end = error;
    this.#head.reject(error);
    this.#reader?.onError(error);
  }

  /** Adds the backend's tokens and time to the slot's metrics and to each client's record. */
  #note(): void {
    const { usage } = this.meter;
    const tokensIn = usage?.input;
    const tokensOut = usage?.output ?? this.#tokens?.count;
    this.#slotMetrics.tokensIn.value += tokensIn ?? 0;
    // Tokens that have arrived are counted already, and a counter does not fall.
    this.#slotMetrics.tokensOut.value += Math.max(0, (tokensOut ?? 0) - (this.#tokens?.count ?? 0));
    const { attempt, prepared } = this.#dispatch;
    this.#dispatch.answered(this.#end === null, usage, tokensOut);
    if (attempt === undefined) return;
    for (const client of this.#to.clients)
      client.record.engine = { ...attempt, model: prepared.backendRequest.served, tokensIn, tokensOut };
  }
}

/** The tokens of one stream, as they arrive from the engine. */
class TokenTimes {
  readonly #metrics: Pick<SlotMetrics, "betweenTokens" | "tokensOut">;
  #lastAt = 0;
  /** Tokens so far, all in the slot's metrics. */
  count = 0;

  constructor(metrics: Pick<SlotMetrics, "betweenTokens" | "tokensOut">) {
    this.#metrics = metrics;
  }

  /** Counted at once: an answer may take minutes. Tokens that arrive together took equal parts of the time. */
  arrived(count: number): void {
    const now = steadyNow();
    if (this.count > 0) this.#metrics.betweenTokens.observeEach((now - this.#lastAt) / 1000 / count, count);
    this.#lastAt = now;
    this.count += count;
    this.#metrics.tokensOut.value += count;
  }
}
