import { ApiError } from "../../api/errors.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { ExchangeError, type Exchange, type ExchangeEvents, type ResponseHead } from "../../lib/exchange.ts";
import type { BufferBudget } from "../slots/budget.ts";
import { toApiError } from "../http/answer.ts";
import type { AnswerFormat } from "./answer-format.ts";
import { AnswerMeter } from "./answer-usage.ts";
import { HeldAnswer, isEventStream, type AnswerSink } from "./answer.ts";
import { engineEventFailure, engineRefusal, engineWords, exchangeFailure, refuseFailure } from "./engine-failure.ts";
import { EventStream, unfitAnswer } from "./event-stream.ts";
import { passiveType } from "./passive-type.ts";
import type { RelayOptions, Sender } from "./relay-options.ts";
import { BufferedAnswer } from "./buffered-answer.ts";
import type { ModelRename } from "./rename.ts";
import { wholeAsEvents } from "./whole-as-events.ts";
import { isWholeJson, notJson } from "./whole-json.ts";

/** The rest of a longer error of an engine is not read. */
const errorLimitBytes = 65_536;

const nothing = Buffer.alloc(0);
type Mode = "head" | "whole" | "error" | "events" | "bytes";

/**
 * One answer on its way from the engine to the client.
 *
 *   head ─┬─ 2xx event stream ─▶ events   line by line as it comes; a failure is one last event
 *         ├─ 2xx JSON ─────────▶ whole    buffered, so that a failure can be reported; large: bytes; stream wanted: events
 *         ├─ 2xx other ────────▶ bytes    as it comes; a failure destroys the connection
 *         └─ other status ─────▶ error    becomes our envelope
 */
export class Relay implements ExchangeEvents {
  readonly #sender: Sender;
  readonly #sink: AnswerSink;
  readonly #rename: ModelRename;
  readonly #format: AnswerFormat;
  readonly #isStream: boolean;
  #body: Buffer | undefined;
  #exchange: Exchange | undefined;
  #mode: Mode = "head";
  #status = 0;
  #type = "";
  readonly #budget: BufferBudget;
  readonly #errorTimeoutMs: number;
  #error: GatheredBytes | undefined;
  #buffered: BufferedAnswer | undefined;
  #errorTimer: NodeJS.Timeout | undefined;
  #events: EventStream | undefined;
  readonly #meter = new AnswerMeter();
  #isSettled = false;
  #isPaused = false;

  constructor({ sender, sink, rename, format, body, isStream, budget, ...rest }: RelayOptions) {
    this.#sender = sender;
    this.#sink = sink;
    this.#rename = rename;
    this.#format = format;
    this.#body = body;
    this.#isStream = isStream;
    this.#budget = budget;
    this.#errorTimeoutMs = rest.errorTimeoutMs ?? 10_000;
  }

  start(exchange: Exchange): void {
    this.#exchange = exchange;
  }

  /** The answer is not needed any more: the engine must stop its work. Does nothing after the end. */
  abort(): void {
    if (this.#isSettled) return;
    this.#exchange?.abort();
    this.#format.translation?.stream?.abandon?.();
    this.#settle();
  }

  onHead(answer: ResponseHead): void {
    this.#sender.onByte();
    this.#sender.onFirstByte();
    this.#status = answer.status;
    if (answer.status >= 300) {
      this.#mode = "error";
      this.#errorTimer = setTimeout(() => this.#endError(), this.#errorTimeoutMs).unref();
      return;
    }
    this.#body = undefined;
    this.#sender.onBodyDone(this.#exchange?.isSent === true);
    const type = passiveType(answer.contentType ?? "application/octet-stream");
    this.#type = type;
    if (isEventStream(type)) this.#beginEvents();
    else if (type.startsWith("application/json")) this.#mode = "whole";
    else {
      this.#mode = "bytes";
      this.#begin(answer.contentLength);
    }
  }

  onData(chunk: Buffer): void {
    if (this.#isSettled) return;
    this.#sender.onByte();
    switch (this.#mode) {
      case "whole":
        this.#buffer(chunk);
        return;
      case "error":
        this.#error ??= new GatheredBytes();
        this.#error.add(chunk);
        if (this.#error.size >= errorLimitBytes) this.#endError();
        return;
      case "events":
        this.#relayEvents(chunk);
        return;
      case "bytes":
        this.#write(chunk);
        return;
      case "head":
        return;
      default:
        this.#mode satisfies never;
    }
  }

  onEnd(): void {
    if (this.#isSettled) return;
    if (this.#mode === "whole") this.#answerWhole();
    switch (this.#mode) {
      case "whole":
        break;
      case "error":
        this.#refuseAsEngine();
        break;
      case "events":
        this.#relayEvents();
        if (this.#isSettled) return;
        if (this.#events?.isWhole === true) this.#endStream();
        else this.#refuse(new ApiError("dispatch.upstream_failed", { message: "the engine ended the stream early" }));
        break;
      case "bytes":
      case "head":
        this.#sink.end();
        break;
      default:
        this.#mode satisfies never;
    }
    this.#settle();
  }

  onError(error: Error): void {
    if (this.#isSettled) return;
    if (this.#sender.onFailed(error)) {
      this.#isSettled = true;
      return;
    }
    this.#relayEvents();
    if (this.#isSettled) return;
    // A failure after [DONE] does not change the answer.
    if (this.#events?.isDone === true) this.#endStream();
    else this.#refuse(error instanceof ExchangeError ? exchangeFailure(error) : toApiError(error));
    this.#settle();
  }

  #beginEvents(): void {
    const { isChat = false, endMark, eventLimitBytes } = this.#format;
    this.#mode = "events";
    this.#events = new EventStream({ rename: this.#rename, isChat, endMark, eventLimitBytes });
    this.#begin();
  }

  #begin(length?: number | string): void {
    try {
      this.#sink.begin(this.#status, { "content-type": this.#type, "content-length": length });
    } catch (error) {
      if (!(error instanceof HeldAnswer)) throw error;
      this.#giveUp(new ApiError("dispatch.upstream_failed", { message: "the engine's answer is no stream" }));
    }
  }

  /** Keeps a whole answer. One that is too large is relayed in pieces, or refused where it must be translated. */
  #buffer(chunk: Buffer): void {
    const isTranslated = this.#format.translation !== undefined;
    this.#buffered ??= new BufferedAnswer(this.#budget, { isTranslated });
    const failure = this.#buffered.add(chunk);
    if (failure === undefined) return;
    if (isTranslated) this.#giveUp(failure);
    else this.#giveUpWhole(this.#buffered);
  }

  /** The engine's error is reported, although more of it may come. */
  #endError(): void {
    if (this.#isSettled) return;
    this.#exchange?.abort();
    this.#refuseAsEngine();
    this.#settle();
  }

  #refuseAsEngine(): void {
    const body = this.#error?.take() ?? nothing;
    const refusal =
      this.#format.translation?.refusal?.(this.#status, body) ?? engineRefusal(this.#status, body, this.#body);
    refusal.engineText ??= engineWords(this.#status, body);
    this.#sink.refuse(refusal);
  }

  #answerWhole(): void {
    const { translation } = this.#format;
    const whole = this.#buffered?.take() ?? nothing;
    let body: Buffer;
    try {
      refuseFailure(whole, translation);
      const events = this.#isStream ? wholeAsEvents(whole) : undefined;
      if (events !== undefined) {
        this.#type = "text/event-stream";
        this.#beginEvents();
        this.#relayEvents(events);
        return;
      }
      body = this.#rename.whole(this.#meter.whole(whole));
      if (translation !== undefined) {
        body = translation.answer(body);
        this.#type = translation.contentType ?? this.#type;
      } else if (!isWholeJson(body)) throw new ApiError("dispatch.upstream_failed", { message: notJson });
    } catch (error) {
      this.#sink.refuse(unfitAnswer(error));
      return;
    }
    this.#begin(body.length);
    // From here on the sink counts the bytes that it keeps.
    this.#buffered?.end();
    if (!this.#isSettled) this.#sink.end(body);
  }

  /** Without a chunk: the engine's stream has ended, and its last line may lack its end. */
  #relayEvents(chunk?: Buffer): void {
    const events = this.#events;
    if (events === undefined) return;
    const { translation } = this.#format;
    let failure: ApiError | undefined;
    try {
      let bytes = chunk === undefined ? events.end() : events.push(chunk);
      const tokens = this.#meter.events(bytes, events.isEnding, this.#format);
      if (tokens > 0) this.#sender.onTokens(tokens);
      if (bytes !== undefined && translation?.stream !== undefined) bytes = translation.stream.push(bytes);
      if (bytes !== undefined) this.#write(bytes);
      if (events.error !== undefined) failure = engineEventFailure(events.error);
    } catch (error) {
      failure = unfitAnswer(error);
    }
    if (failure !== undefined) this.#giveUp(failure);
  }

  #endStream(): void {
    try {
      this.#sink.end(this.#format.translation?.stream?.end());
    } catch (error) {
      this.#refuse(unfitAnswer(error));
    }
  }

  /** The rest of the answer is not needed. */
  #giveUp(failure: ApiError): void {
    this.#exchange?.abort();
    this.#refuse(failure);
    this.#settle();
  }

  #refuse(failure: ApiError): void {
    const stream = this.#mode === "events" ? this.#format.translation?.stream : undefined;
    this.#sink.refuse(failure, stream?.fail?.(failure));
  }

  #write(bytes: Buffer): void {
    if (this.#sink.write(bytes) || this.#isPaused) return;
    this.#isPaused = true;
    this.#exchange?.pause();
    this.#sink.onDrain(() => this.#drained());
  }

  #drained(): void {
    this.#isPaused = false;
    this.#buffered?.end();
    this.#exchange?.resume();
  }

  #giveUpWhole(answer: BufferedAnswer): void {
    this.#mode = "bytes";
    this.#begin();
    if (this.#isSettled) return;
    this.#write(this.#rename.whole(answer.take()));
    // With a slow reader the bytes stay here until it drains.
    if (!this.#isPaused) answer.end();
  }

  #settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#body = undefined;
    this.#buffered?.end();
    clearTimeout(this.#errorTimer);
    this.#sender.onSettled(this.#meter.usage);
  }
}
