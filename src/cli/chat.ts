import { CommandError, failure, notBerth, wholeText, type Client } from "./client.ts";
import { events } from "./events.ts";
import { cell, isRecord } from "./output.ts";

/** One message of the conversation so far. */
export interface Said {
  readonly role: "user" | "assistant";
  readonly content: string;
}

export interface ChatRequest {
  /** A slot or a model. */
  readonly model: string;
  readonly messages: readonly Said[];
  readonly maxTokens: number | undefined;
  /** Aborted when the answer is not needed any more. */
  readonly signal?: AbortSignal;
}

/** A piece of an answer, with text. */
export interface Piece {
  readonly text: string;
  /** The model reasons: this is not for the reader of the answer. */
  readonly isThought: boolean;
}

/** The time that a service has to end a stream after its last event. */
const endMs = 2000;

/** About as many tokens as a long answer has: a model that never ends would print for hours. */
const answerLimit = 4096;

/** The end of an answer that was stopped at the limit. */
export const cutMessage = `stopped after about ${answerLimit} tokens; --max-tokens sets another limit`;

/**
 * The pieces of one answer without its thoughts; else as `pieces`. Without `maxTokens` the answer is stopped after some
 * thousand pieces, thoughts among them, and `onCut` is called. They are counted here: some providers refuse `max_tokens`.
 */
export async function* chat(
  client: Client,
  request: ChatRequest,
  { onWaiting, onCut = () => undefined }: ChatOptions = {},
): AsyncIterable<string> {
  const stop = new AbortController();
  const signal = request.signal === undefined ? stop.signal : AbortSignal.any([stop.signal, request.signal]);
  let left = request.maxTokens === undefined ? answerLimit : Infinity;
  for await (const { text, isThought } of pieces(client, { ...request, signal }, onWaiting)) {
    if (!isThought) yield text;
    left -= 1;
    if (left > 0) continue;
    stop.abort();
    onCut();
    return;
  }
}

interface ChatOptions {
  /** Gets the slot's state while it is not ready. */
  readonly onWaiting?: (text: string) => void;
  readonly onCut?: () => void;
}

/**
 * The pieces of one answer. While the slot is not ready, `onWaiting` gets its state. Throws CommandError when the
 * stream ends in an error, or with neither a finish reason nor `[DONE]`.
 */
export async function* pieces(
  client: Client,
  { model, messages, maxTokens, signal }: ChatRequest,
  onWaiting: (text: string) => void = () => undefined,
): AsyncIterable<Piece> {
  const { contentType, body } = await client.answer("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model,
      stream: true,
      messages,
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    }),
    ...(signal === undefined ? {} : { signal }),
  });
  if (!contentType.startsWith("text/event-stream")) {
    // Some engines answer in one piece, even when a stream was requested.
    yield* wholeAnswer(client, await wholeText(body));
    return;
  }
  const stream = events(body, (comment) => onWaiting(waiting(comment)))[Symbol.asyncIterator]();
  let isFinished = false;
  for (;;) {
    const next = await stream.next();
    if (next.done === true) {
      if (isFinished) return;
      throw new CommandError(
        "unreachable",
        `the answer is cut: ${client.server} ended the stream within it`,
        "try again: the service, or a proxy before it, may have been stopped or restarted",
      );
    }
    const { data } = next.value;
    if (data === "[DONE]") break;
    const chunk = client.parsed(data);
    if (!isRecord(chunk)) continue;
    const { error } = chunk;
    if (isRecord(error)) throw await failed(model, error);
    const choice = choiceOf(chunk);
    isFinished ||= typeof choice["finish_reason"] === "string";
    yield* piecesOf(choice["delta"]);
  }
  // Read to its end: the service would count a cut connection as a client that left.
  await ended(stream);
}

async function failed(slot: string, error: Record<string, unknown>): Promise<CommandError> {
  const details = isRecord(error["details"]) ? error["details"] : {};
  const about = "upstream" in details ? details : { slot, ...details };
  return await failure(cell(error["code"]), cell(error["message"]), about);
}

function choiceOf({ choices }: Record<string, unknown>): Record<string, unknown> {
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  return isRecord(choice) ? choice : {};
}

/** Engines name thoughts differently: llama.cpp and vLLM, and OpenRouter. */
const thoughtFields = ["reasoning_content", "reasoning"] as const;

/** The pieces of a delta, or of a whole message. */
function* piecesOf(said: unknown): Iterable<Piece> {
  if (!isRecord(said)) return;
  const thought = thoughtFields.map((field) => said[field]).find((each) => typeof each === "string" && each !== "");
  if (typeof thought === "string") yield { text: thought, isThought: true };
  const { content } = said;
  if (typeof content === "string" && content !== "") yield { text: content, isThought: false };
}

/** The pieces of an answer that is no stream. Throws CommandError where it is no chat. */
function wholeAnswer(client: Client, text: string): Iterable<Piece> {
  const answer = client.parsed(text);
  const message = isRecord(answer) ? choiceOf(answer)["message"] : undefined;
  // Without any text the content is null.
  if (isRecord(message) && message["content"] !== undefined) return piecesOf(message);
  throw notBerth(`${client.server} answered with something else than a chat`);
}

async function ended(stream: AsyncIterator<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeLimit = new Promise<true>((resolve) => {
    timer = setTimeout(() => resolve(true), endMs);
  });
  // A failure after the last event changes nothing.
  const rest = async (): Promise<boolean> => (await stream.next().catch(() => ({ done: true }))).done === true;
  while (!(await Promise.race([rest(), timeLimit])));
  clearTimeout(timer);
}

/** `waiting slot=primary state=ready progress=41% doing="draining a for b"`, for a person. */
function waiting(comment: string): string {
  const pairs = comment.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g);
  const fields = Object.fromEntries([...pairs].map(([, key = "", quoted, plain = ""]) => [key, quoted ?? plain]));
  const { slot, upstream, state, doing, progress } = fields;
  const name = slot ?? upstream;
  if (name === undefined || state === undefined) return comment;
  return `${name}: ${doing ?? state}${progress === undefined ? "" : ` ${progress}`}`;
}

/** All of the input. Throws CommandError, with `next` as the remedy, when it is empty. */
export async function pipedIn(input: NodeJS.ReadableStream, next: string): Promise<string> {
  let text = "";
  for await (const chunk of input.setEncoding("utf8")) text += String(chunk);
  if (text.trim() !== "") return text;
  throw new CommandError("usage", "standard input is empty", next);
}
