import { ApiFailure, request } from "../shared/api.ts";
import { events, type ServerEvent } from "../shared/sse.ts";
import type { Conversation, Message, ToolCall } from "./model.ts";
import { sentMessages, thoughtsOf, type Thinking } from "./turns.ts";
import { sendingWords, waitWords } from "./wait-words.ts";

interface Delta extends Thinking {
  readonly content?: string | null;
  readonly tool_calls?: readonly { index?: number; function?: { name?: string; arguments?: string } }[];
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: Delta; readonly finish_reason?: string | null }[];
  readonly usage?: { readonly completion_tokens?: number } | null;
  readonly error?: { readonly message?: string };
}

export interface StreamHandlers {
  /** The answer so far. */
  readonly onAnswer: (answer: Message) => void;
  /** The parts of what the request waits for, in words; none once it waits no longer. */
  readonly onWait: (words: readonly string[]) => void;
  readonly signal: AbortSignal;
}

/** Asks the model of the conversation for the next message. Resolves with the whole of it; throws ApiFailure. */
export async function answer(conversation: Conversation, handlers: StreamHandlers): Promise<Message> {
  const { onAnswer, onWait, signal } = handlers;
  const { model, parameters, messages } = conversation;
  const text = JSON.stringify({
    model,
    stream: true,
    stream_options: { include_usage: true },
    messages: [
      ...(parameters.system.trim() === "" ? [] : [{ role: "system", content: parameters.system }]),
      ...sentMessages(messages),
    ],
    ...(parameters.temperature === "" ? {} : { temperature: Number(parameters.temperature) }),
    ...(parameters.maxTokens === "" ? {} : { max_tokens: Number(parameters.maxTokens) }),
  });
  onWait([sendingWords(new Blob([text]).size, model)]);
  const raw = { content: text, type: "application/json" };
  const response = await request("/v1/chat/completions", { method: "POST", raw, signal });
  onWait([sendingWords(0, model)]);
  if (response.body === null) throw new ApiFailure(502, "empty", "the answer is empty");
  let [content, thoughts] = ["", ""];
  const calls = new Map<number, ToolCall>();
  let tokens: number | undefined;
  let counted = 0;
  let beganMs: number | undefined;
  let thinksSinceMs: number | undefined;
  let thoughtSeconds: number | undefined;
  const message = (): Message => ({
    role: "assistant",
    content,
    model,
    ...(thoughts === "" ? {} : { thoughts }),
    ...(thoughtSeconds === undefined ? {} : { thoughtSeconds }),
    ...(calls.size === 0 ? {} : { toolCalls: [...calls.values()] }),
    tokens: tokens ?? counted,
    seconds: beganMs === undefined ? 0 : (performance.now() - beganMs) / 1000,
  });
  let isWhole = false;
  for await (const { data, comments } of unbroken(response.body, signal)) {
    const comment = comments.at(-1);
    if (comment !== undefined) onWait(waitWords(comment));
    if (data === "[DONE]") isWhole = true;
    if (data === "" || data === "[DONE]") continue;
    const chunk = chunkIn(data);
    if (chunk.error !== undefined) throw new ApiFailure(502, "stream", chunk.error.message ?? "the answer was cut off");
    tokens = chunk.usage?.completion_tokens ?? tokens;
    const [choice] = chunk.choices ?? [];
    if (typeof choice?.finish_reason === "string") isWhole = true;
    const delta = choice?.delta;
    if (delta === undefined) continue;
    beganMs ??= performance.now();
    content += delta.content ?? "";
    thoughts += thoughtsOf(delta);
    if (thoughts !== "") thinksSinceMs ??= performance.now();
    for (const { index = 0, function: called } of delta.tool_calls ?? []) {
      const known = calls.get(index) ?? { name: "", arguments: "" };
      calls.set(index, {
        name: known.name + (called?.name ?? ""),
        arguments: known.arguments + (called?.arguments ?? ""),
      });
    }
    const answers = content !== "" || calls.size > 0;
    if (thinksSinceMs !== undefined && answers) thoughtSeconds ??= (performance.now() - thinksSinceMs) / 1000;
    counted += 1;
    // The first piece names the role alone: a person goes on waiting.
    if (!answers && thoughts === "") continue;
    onWait([]);
    onAnswer(message());
  }
  onWait([]);
  if (!isWhole) throw cutOff();
  return message();
}

/** A piece of an answer. Throws ApiFailure where an engine has sent something else. */
function chunkIn(data: string): Chunk {
  try {
    const chunk: Chunk | null = JSON.parse(data);
    if (typeof chunk === "object" && chunk !== null && Array.isArray(chunk.choices ?? [])) return chunk;
  } catch {
    // Not even JSON.
  }
  const message =
    "The model has sent something that is no answer. Retry asks again; the slot's page has the log of its engine.";
  throw new ApiFailure(0, "stream", message);
}

const cutOff = (): ApiFailure =>
  new ApiFailure(0, "cut_off", "The connection to Berth was lost before the end of the answer. Retry asks again.");

/** The events of an answer; throws ApiFailure where its connection breaks. */
async function* unbroken(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  try {
    yield* events(body);
  } catch (error) {
    throw signal.aborted ? error : cutOff();
  }
}
