import { errorMessage } from "../../lib/error-code.ts";
import { conventions } from "./gen-ai.ts";
import { putPart } from "./line-bytes.ts";

export interface OtlpOptions {
  /** The base address of the receiver: spans go to `/v1/traces` below it. */
  readonly endpoint: string;
  readonly version: string;
  /** Tells this gateway from others, and from itself after a restart. */
  readonly instance: string;
  /** Called once for each row of failures. */
  readonly onFailing: (message: string) => void;
  /** Milliseconds from a span to its sending. */
  readonly everyMs?: number;
  /** Milliseconds that one sending may take. */
  readonly timeoutMs?: number;
}

/** The spans of a request. */
export interface SpanWriter {
  readonly count: number;
  /** `put` takes no more bytes. */
  readonly mostBytes: number;
  /** Writes each span as OTLP has it in JSON, with a comma behind it, into memory, and returns where they end. */
  put(memory: Buffer, at: number): number;
}

/** Spans that wait while the receiver does not answer; later ones are dropped. */
const waitingLimit = 2048;
const batchSpans = 512;
const batchBytes = 384 * 1024;
const usualTimeoutMs = 10_000;

/**
 * Sends spans in batches. What a receiver does not take is dropped: a request never waits for it. A span is bytes of its batch
 * from the start: objects and texts that wait for a batch are work for V8's collector, which costs more than making them.
 */
export class OtlpExporter implements AsyncDisposable {
  readonly #options: OtlpOptions;
  readonly #url: string;
  readonly #envelope: Envelope;
  /** The batch that takes spans. */
  #open: Batch | undefined;
  /** Full ones, the oldest first. */
  readonly #full: Batch[] = [];
  #spare: Batch | undefined;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #isFailing = false;
  /** When the last request must have ended, by `performance.now()`. */
  #endsAt = Infinity;

  constructor(options: OtlpOptions) {
    this.#options = options;
    this.#url = `${options.endpoint.replace(/\/$/, "")}/v1/traces`;
    this.#envelope = envelopeOf(options);
  }

  /** Whether spans of another request are taken: otherwise they need not be made. */
  get hasRoom(): boolean {
    return this.#full.reduce((spans, { count }) => spans + count, this.#open?.count ?? 0) < waitingLimit;
  }

  add(spans: SpanWriter): void {
    if (this.#open?.hasRoomFor(spans) === false) this.#close(this.#open);
    this.#open ??= this.#newBatch(spans);
    this.#open.add(spans);
    if (this.#timer === undefined) this.#flushIn(this.#options.everyMs ?? 2000);
    if (this.#open.count >= batchSpans) this.#close(this.#open);
    if (this.#full.length > 0) this.#flush();
  }

  /** Sends all spans that wait, batch after batch, for as long as one request may take; ends at the first failure. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#endsAt = performance.now() + this.#timeoutMs;
    await this.#sending;
    do {
      this.#flush();
      await this.#sending;
    } while (this.#hasSpans && !this.#isFailing && performance.now() < this.#endsAt);
    clearTimeout(this.#timer);
    this.#full.length = 0;
    this.#open = undefined;
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? usualTimeoutMs;
  }

  get #hasSpans(): boolean {
    return this.#open !== undefined || this.#full.length > 0;
  }

  #newBatch(spans: SpanWriter): Batch {
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare?.hasRoomFor(spans) === true) return spare;
    return new Batch(this.#envelope, spans.mostBytes);
  }

  #close(batch: Batch): void {
    this.#full.push(batch);
    this.#open = undefined;
  }

  #flushIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#flush();
    }, ms).unref();
  }

  /** Sends the oldest spans, unless others are being sent: those that wait then fill their batch meanwhile. */
  #flush(): void {
    if (this.#sending !== undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#full.length === 0 && this.#open !== undefined) this.#close(this.#open);
    const batch = this.#full.shift();
    if (batch === undefined) return;
    this.#sending = this.#send(batch).finally(() => {
      this.#sending = undefined;
      // A receiver that refuses a batch may not have read all of it: its memory may still be on its way.
      if (!this.#isFailing) this.#spare = batch.cleared();
      // Spans are overdue where their timer has fired meanwhile.
      if (this.#full.length > 0 || (this.#hasSpans && this.#timer === undefined)) this.#flushIn(0);
    });
  }

  async #send(batch: Batch): Promise<void> {
    try {
      const signal = AbortSignal.timeout(
        Math.ceil(Math.max(1, Math.min(this.#timeoutMs, this.#endsAt - performance.now()))),
      );
      // Loaded only here: a gateway without upstreams has not loaded it.
      const { request } = await import("undici");
      const headers = { "content-type": "application/json", "user-agent": `berth-gateway/${this.#options.version}` };
      const { statusCode, body } = await request(this.#url, { method: "POST", headers, body: batch.body(), signal });
      await body.dump();
      signal.throwIfAborted();
      if (statusCode < 200 || statusCode > 299) throw new Error(`${this.#url} answered ${statusCode}`);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#options.onFailing(errorMessage(error));
      this.#isFailing = true;
    }
  }
}

/** The body of one request to the receiver, while it is made. */
class Batch {
  readonly #envelope: Envelope;
  readonly #memory: Buffer<ArrayBuffer>;
  #length: number;
  #count = 0;

  /** `mostBytes`: of its first request, for which there is room in any case. */
  constructor(envelope: Envelope, mostBytes: number) {
    const { before, after } = envelope;
    this.#envelope = envelope;
    this.#memory = Buffer.allocUnsafeSlow(Math.max(batchBytes, before.length + mostBytes + after.length));
    this.#length = putPart(this.#memory, 0, before);
  }

  /** The number of its spans. */
  get count(): number {
    return this.#count;
  }

  hasRoomFor({ mostBytes }: SpanWriter): boolean {
    return this.#length + mostBytes + this.#envelope.after.length <= this.#memory.length;
  }

  add(spans: SpanWriter): void {
    this.#length = spans.put(this.#memory, this.#length);
    this.#count += spans.count;
  }

  /** With spans alone: the end takes the place of the last one's comma. */
  body(): Buffer<ArrayBuffer> {
    return this.#memory.subarray(0, putPart(this.#memory, this.#length - 1, this.#envelope.after));
  }

  /** Itself, without spans. */
  cleared(): this {
    this.#length = this.#envelope.before.length;
    this.#count = 0;
    return this;
  }
}

/** The text around the spans of a batch. */
interface Envelope {
  readonly before: Buffer;
  readonly after: Buffer;
}

function envelopeOf({ version, instance }: OtlpOptions): Envelope {
  const attribute = (key: string, stringValue: string): unknown => ({ key, value: { stringValue } });
  const resource = {
    attributes: [
      attribute("service.name", "berth-gateway"),
      attribute("service.version", version),
      attribute("service.instance.id", instance),
    ],
  };
  const scope = { name: "berth", version, attributes: [attribute("berth.gen_ai.conventions", conventions)] };
  const text = JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: [0] }] }] });
  const [before = "", after = ""] = text.split('"spans":[0]');
  return { before: Buffer.from(`${before}"spans":[`), after: Buffer.from(`]${after}`) };
}
