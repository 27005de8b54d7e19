import { errorMessage } from "../../lib/error-code.ts";
import { conventions } from "./gen-ai.ts";

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
}

/** The spans of a request, which are made together with those of others: that takes less time (docs/performance.md). */
export interface LateSpans {
  /** Each is a span as OTLP has it in JSON. */
  spans(): readonly string[];
}

/** Requests whose spans are made together, at most. */
const lateLimit = 32;
/** Spans that wait while the receiver does not answer; later ones are dropped. */
const waitingLimit = 2048;
const batchSize = 512;
const patienceMs = 10_000;

/** Sends spans in batches. What a receiver does not take is dropped: a request never waits for it. */
export class OtlpExporter implements AsyncDisposable {
  readonly #options: OtlpOptions;
  readonly #url: string;
  #waiting: string[] = [];
  /** Their spans come after those above. */
  #late: LateSpans[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #isFailing = false;
  /** When the last request must have ended, by `performance.now()`. */
  #endsAt = Infinity;

  constructor(options: OtlpOptions) {
    this.#options = options;
    this.#url = `${options.endpoint.replace(/\/$/, "")}/v1/traces`;
  }

  /** Whether spans of another request are taken: otherwise they need not be made. */
  get hasRoom(): boolean {
    return this.#waiting.length < waitingLimit;
  }

  add(request: LateSpans): void {
    this.#late.push(request);
    this.#timer ??= setTimeout(() => this.#flush(), this.#options.everyMs ?? 2000).unref();
    if (this.#late.length < lateLimit) return;
    this.#makeLate();
    if (this.#waiting.length >= batchSize) this.#flush();
  }

  #makeLate(): void {
    const requests = this.#late;
    this.#late = [];
    for (const request of requests) for (const span of request.spans()) this.#waiting.push(span);
  }

  /** Sends all spans that wait, batch after batch, for as long as one request may take; ends at the first failure. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#endsAt = performance.now() + patienceMs;
    await this.#sending;
    do {
      this.#flush();
      await this.#sending;
    } while (this.#hasSpans && !this.#isFailing && performance.now() < this.#endsAt);
    clearTimeout(this.#timer);
    this.#waiting = [];
    this.#late = [];
  }

  get #hasSpans(): boolean {
    return this.#waiting.length + this.#late.length > 0;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#makeLate();
    if (this.#sending !== undefined || this.#waiting.length === 0) return;
    const batch = this.#waiting.splice(0, batchSize);
    this.#sending = this.#send(batch).finally(() => {
      this.#sending = undefined;
      if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#flush(), 0).unref();
    });
  }

  async #send(spans: readonly string[]): Promise<void> {
    const { version, instance } = this.#options;
    const attribute = (key: string, stringValue: string): unknown => ({ key, value: { stringValue } });
    const resource = {
      attributes: [
        attribute("service.name", "berth-gateway"),
        attribute("service.version", version),
        attribute("service.instance.id", instance),
      ],
    };
    const scope = { name: "berth", version, attributes: [attribute("berth.gen_ai.conventions", conventions)] };
    const [before, after] = JSON.stringify({
      resourceSpans: [{ resource, scopeSpans: [{ scope, spans: [0] }] }],
    }).split('"spans":[0]');
    const body = `${before}"spans":[${spans.join(",")}]${after}`;
    try {
      const response = await fetch(this.#url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
        signal: AbortSignal.timeout(Math.ceil(Math.max(1, Math.min(patienceMs, this.#endsAt - performance.now())))),
        redirect: "error",
      });
      await response.arrayBuffer();
      if (!response.ok) throw new Error(`${this.#url} answered ${response.status}`);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#options.onFailing(errorMessage(error));
      this.#isFailing = true;
    }
  }
}
