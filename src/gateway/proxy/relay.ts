import { ApiError } from "../../api/errors.ts";
import { ExchangeError } from "../../lib/exchange.ts";
import { isWholeJson } from "../../lib/json.ts";
import { toApiError } from "../http/answer.ts";
import { NotAStream, isEventStream, type AnswerSink } from "../relay/answer.ts";
import { engineEventFailure, exchangeFailure, notJson, refuseFailure } from "../relay/engine-failure.ts";
import { EventStream, unfitAnswer } from "../relay/event-stream.ts";
import { ModelRename } from "../relay/rename.ts";
import { BufferedAnswer, wholeAsEvents } from "../relay/whole.ts";
import type { BufferBudget } from "../slots/budget.ts";
import { clientGone } from "./call.ts";
import type { Dispatch } from "./recipient.ts";
import type { AnswerReader, BackendAnswer } from "./send.ts";

/**
 * A failure within a stream. `events`: those of the stream's translation that report it, since they depend on earlier ones;
 * undefined: the route's form of errors reports it.
 */
export class StreamFailure extends Error {
  override readonly name = "StreamFailure";
  readonly failure: ApiError;
  readonly events: string | undefined;

  constructor(failure: ApiError, events: string | undefined) {
    super(failure.message, { cause: failure });
    this.failure = failure;
    this.events = events;
  }
}

/** Ends the answer with a failure, in the form that is still possible. */
export function refuse(sink: AnswerSink, error: unknown): void {
  if (error instanceof StreamFailure) sink.refuse(error.failure, error.events);
  else sink.refuse(failureOf(error));
}

/** The client's error for any failure of an exchange. */
function failureOf(error: unknown): ApiError {
  return error instanceof ExchangeError ? exchangeFailure(error) : toApiError(error);
}

/**
 * Brings a backend's answer to its client, as it comes or in one piece:
 *
 *   event stream   line by line; a failure is one last event
 *   JSON           in one piece, so that a failure can be reported; as it comes where it is large; as events where the
 *                  client asked for a stream
 *   other          as it comes; a failure cuts the connection
 *
 * Resolves once the sink has all of it. Rejects with StreamFailure, ApiError, ExchangeError, or the reason of the
 * recipient's signal.
 */
export async function relay(
  answer: BackendAnswer,
  from: Pick<Dispatch, "prepared" | "masked">,
  sink: AnswerSink,
  budget: BufferBudget,
): Promise<void> {
  const { status, contentType, contentLength } = await answer.head;
  const type = passiveType(contentType ?? "application/octet-stream");
  const { request, backendRequest } = from.prepared;
  const rename = new ModelRename(backendRequest.served, request.model);
  const way = { answer, from, rename, sink, status, type };
  if (isEventStream(type)) await relayEvents(way);
  else if (type.startsWith("application/json")) await relayWhole(way, budget);
  else await relayBytes(way, contentLength);
}

/** The parts that relaying one answer needs. */
interface Way {
  readonly answer: BackendAnswer;
  readonly from: Pick<Dispatch, "prepared" | "masked">;
  readonly rename: ModelRename;
  readonly sink: AnswerSink;
  readonly status: number;
  readonly type: string;
}

async function relayBytes(way: Way, length?: string): Promise<void> {
  begin(way, length);
  const flow = new Flow(way.answer, way.sink);
  const broken = await flow.run((chunk) => flow.write(chunk));
  if (broken !== undefined) throw broken;
  way.sink.end();
}

/** `whole`: the events that a whole answer has become; absent: the backend's own. */
async function relayEvents(way: Way, whole?: Buffer): Promise<void> {
  const { answer, from, rename, sink } = way;
  const { format } = from.prepared.backendRequest;
  const { isChat = false, endMark, eventLimitBytes, translation } = format;
  const stream = translation?.stream;
  const events = new EventStream({ rename, isChat, endMark, eventLimitBytes });
  const flow = new Flow(answer, sink);
  /** Without a chunk: the stream has ended, and its last line may lack its end. */
  const take = (chunk?: Buffer): void => {
    let bytes = chunk === undefined ? events.end() : events.push(chunk);
    const tokens = answer.meter.events(bytes, events.isEnding, format);
    if (tokens > 0) answer.noteTokens(tokens);
    if (bytes !== undefined && stream !== undefined) bytes = stream.push(bytes);
    if (bytes !== undefined) flow.write(bytes);
    if (events.error !== undefined) throw engineEventFailure(events.error);
  };
  begin(way);
  try {
    let broken: Error | undefined;
    if (whole === undefined) broken = await flow.run(take);
    else take(whole);
    take();
    // A failure after [DONE] does not change the answer.
    if (broken !== undefined && !events.isDone) throw broken;
    if (broken === undefined && !events.isWhole)
      throw new ApiError("dispatch.upstream_failed", { message: "the stream ended early" });
    sink.end(stream?.end());
  } catch (error) {
    if (error === clientGone) {
      stream?.abandon?.();
      throw error;
    }
    const failure = from.masked(error instanceof ExchangeError ? exchangeFailure(error) : unfitAnswer(error));
    throw new StreamFailure(failure, stream?.fail?.(failure));
  }
}

async function relayWhole(way: Way, budget: BufferBudget): Promise<void> {
  const { answer, from, rename, sink } = way;
  const { request, backendRequest } = from.prepared;
  const { translation } = backendRequest.format;
  using buffered = new BufferedAnswer(budget, { isTranslated: translation !== undefined });
  const tooLarge = await gathered(answer, buffered);
  if (tooLarge !== undefined) {
    if (translation !== undefined) throw tooLarge;
    await relayLarge(way, buffered);
    return;
  }
  let whole = buffered.take();
  let { type } = way;
  try {
    refuseFailure(whole, translation);
    const events = request.isStream ? wholeAsEvents(whole) : undefined;
    if (events !== undefined) {
      await relayEvents({ ...way, type: "text/event-stream" }, events);
      return;
    }
    whole = rename.whole(answer.meter.whole(whole));
    if (translation !== undefined) {
      whole = translation.answer(whole);
      type = translation.contentType ?? type;
    } else if (!isWholeJson(whole)) throw new ApiError("dispatch.upstream_failed", { message: notJson });
  } catch (error) {
    throw error instanceof StreamFailure ? error : from.masked(unfitAnswer(error));
  }
  begin({ ...way, type }, whole.length);
  sink.end(whole);
}

/** Resolves once the answer is whole, or with the reason for which no more of it may be kept. */
async function gathered(answer: BackendAnswer, buffered: BufferedAnswer): Promise<ApiError | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<ApiError | undefined>();
  answer.read({
    onData(chunk) {
      const tooLarge = buffered.add(chunk);
      if (tooLarge === undefined) return;
      answer.unread();
      answer.exchange?.pause();
      resolve(tooLarge);
    },
    onEnd: () => resolve(undefined),
    onError: reject,
  });
  return await promise;
}

/** Relays a large answer: first the part that was kept, then the rest as it comes. */
async function relayLarge(way: Way, kept: BufferedAnswer): Promise<void> {
  const { answer, sink, rename } = way;
  begin(way);
  const flow = new Flow(answer, sink);
  flow.write(rename.whole(kept.take()));
  if (!flow.isPaused) answer.exchange?.resume();
  const broken = await flow.run((chunk) => {
    // The sink has taken what was kept.
    kept[Symbol.dispose]();
    flow.write(chunk);
  });
  if (broken !== undefined) throw broken;
  sink.end();
}

function begin({ sink, status, type }: Way, length?: number | string): void {
  try {
    sink.begin(status, { "content-type": type, "content-length": length });
  } catch (error) {
    if (!(error instanceof NotAStream)) throw error;
    throw new ApiError("dispatch.upstream_failed", { message: "the answer is no stream" });
  }
}

/** The bytes of an answer on their way to its sink, at the sink's pace. */
class Flow implements AnswerReader {
  readonly #answer: BackendAnswer;
  readonly #sink: AnswerSink;
  readonly #ended = Promise.withResolvers<Error | undefined>();
  #take: (chunk: Buffer) => void = () => undefined;
  isPaused = false;

  constructor(answer: BackendAnswer, sink: AnswerSink) {
    this.#answer = answer;
    this.#sink = sink;
  }

  /** Resolves at the end, with the failure where the answer breaks off. Rejects with what `take` throws. */
  async run(take: (chunk: Buffer) => void): Promise<Error | undefined> {
    this.#take = take;
    this.#answer.read(this);
    return await this.#ended.promise;
  }

  write(bytes: Buffer): void {
    if (this.#sink.write(bytes) || this.isPaused) return;
    this.isPaused = true;
    this.#answer.exchange?.pause();
    this.#sink.onDrain(() => {
      this.isPaused = false;
      this.#answer.exchange?.resume();
    });
  }

  onData(chunk: Buffer): void {
    try {
      this.#take(chunk);
    } catch (error) {
      this.#answer.unread();
      this.#ended.reject(error);
    }
  }

  onEnd(): void {
    this.#ended.resolve(undefined);
  }

  onError(error: Error): void {
    this.#ended.resolve(error);
  }
}

/** Types that no browser executes, renders with scripts, or loads a script from. */
const passive =
  /^(application\/(json|x-ndjson|octet-stream|ogg|x-subrip)|text\/(event-stream|plain|vtt)|audio\/[\w.+-]+|video\/[\w.+-]+|image\/(png|jpeg|webp|gif|avif))$/;
/** One type with parameters, and no comma: where a header names several, browsers use the last (Fetch, 2.2.2). */
const sound = /^([\w.+-]+\/[\w.+-]+)(\s*;\s*[\w-]+=([\w.+-]+|"[^",\\]*"))*\s*;?$/;

const known = new Map<string, string>();
const knownLimit = 100;

/**
 * The content type for an answer of an engine or provider. A page, a picture with scripts or a style sheet would run in
 * our origin for everybody who opens its address: text becomes plain text, every other type bytes.
 */
export function passiveType(type: string): string {
  let safe = known.get(type);
  if (safe === undefined) {
    safe = judge(type);
    if (known.size >= knownLimit) known.clear();
    known.set(type, safe);
  }
  return safe;
}

function judge(type: string): string {
  const essence = sound.exec(type.trim())?.[1]?.toLowerCase() ?? "";
  if (passive.test(essence)) return type;
  return /^\s*text\//i.test(type) ? "text/plain; charset=utf-8" : "application/octet-stream";
}
