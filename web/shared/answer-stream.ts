import { ApiFailure } from "./api.ts";
import { events, type ServerEvent } from "./sse.ts";

/** A part of a chat's answer, as the API has it. */
interface Delta {
  readonly content?: string | null;
  readonly reasoning_content?: string | null;
  readonly reasoning?: unknown;
  readonly tool_calls?: readonly { index?: number; function?: { name?: string; arguments?: string } }[];
}

/** One event of a streamed answer. */
interface StreamPiece {
  /** Undefined: the event holds no part of the answer. */
  readonly delta: Delta | undefined;
  /** All tokens of the answer so far; undefined: the event does not say. */
  readonly tokens: number | undefined;
  /** Whether the limit of tokens has ended the answer. */
  readonly isCut: boolean;
  /** The server's words of what the request waits for; undefined: the event does not say. */
  readonly comment: string | undefined;
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: Delta; readonly finish_reason?: string | null }[];
  readonly usage?: { readonly completion_tokens?: number } | null;
  readonly error?: { readonly code?: unknown; readonly message?: string };
}

/**
 * Reads the answer of `/v1/chat/completions` with `stream: true`, and returns at its end. Throws ApiFailure: `cut_off`
 * where the answer ends before that, `no_answer` for an event that is no part of an answer, the server's code and words
 * for an error in the stream. Throws what reading throws once `signal` is aborted.
 */
export async function* readStream(response: Response, signal: AbortSignal): AsyncGenerator<StreamPiece> {
  if (response.body === null) throw cutOff();
  let isWhole = false;
  for await (const { data, comments } of unbroken(response.body, signal)) {
    const chunk = data === "" || data === "[DONE]" ? {} : chunkIn(data);
    if (chunk.error !== undefined) throw failureIn(chunk.error);
    const [choice] = chunk.choices ?? [];
    if (data === "[DONE]" || typeof choice?.finish_reason === "string") isWhole = true;
    const isCut = choice?.finish_reason === "length";
    yield { delta: choice?.delta, tokens: chunk.usage?.completion_tokens, isCut, comment: comments.at(-1) };
  }
  if (!isWhole) throw cutOff();
}

/** Throws ApiFailure where an engine has sent something else. */
function chunkIn(data: string): Chunk {
  try {
    const chunk: Chunk | null = JSON.parse(data);
    if (typeof chunk === "object" && chunk !== null && Array.isArray(chunk.choices ?? [])) return chunk;
  } catch {
    // Not even JSON.
  }
  throw new ApiFailure(0, "no_answer", "The model has sent something that is no answer.");
}

function failureIn({ code, message = "the answer was cut off" }: NonNullable<Chunk["error"]>): ApiFailure {
  // An engine's own codes are numbers, or null.
  return new ApiFailure(502, typeof code === "string" ? code : "engine", message);
}

const cutOff = (): ApiFailure =>
  new ApiFailure(0, "cut_off", "The connection to Berth was lost before the end of the answer.");

/** The events of an answer. Throws ApiFailure where its connection breaks. */
async function* unbroken(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  try {
    yield* events(body);
  } catch (error) {
    throw signal.aborted ? error : cutOff();
  }
}
