import { readStream } from "../shared/answer-stream.ts";
import { request } from "../shared/api.ts";
import { thoughtsOf } from "../shared/thoughts.ts";
import { faultOf, type Conversation, type Message, type Parameters, type ToolCall } from "./model.ts";
import { sentMessages } from "./turns.ts";
import { sendingWords, waitWords } from "./wait-words.ts";

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
    ...numberOf("temperature", "temperature", parameters),
    ...numberOf("max_tokens", "maxTokens", parameters),
  });
  onWait([sendingWords(new Blob([text]).size, model)]);
  const raw = { content: text, type: "application/json" };
  const response = await request("/v1/chat/completions", { method: "POST", raw, signal });
  onWait([sendingWords(0, model)]);
  let [content, thoughts] = ["", ""];
  const calls = new Map<number, ToolCall>();
  let tokens: number | undefined;
  let counted = 0;
  let isCut = false;
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
    ...(isCut ? { isCut } : {}),
    tokens: tokens ?? counted,
    seconds: beganMs === undefined ? 0 : (performance.now() - beganMs) / 1000,
  });
  for await (const { delta, tokens: sum, isCut: isCutHere, comment } of readStream(response, signal)) {
    if (comment !== undefined) onWait(waitWords(comment));
    tokens = sum ?? tokens;
    isCut ||= isCutHere;
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
  return message();
}

function numberOf(name: string, field: "temperature" | "maxTokens", { [field]: text }: Parameters): object {
  return text === "" || faultOf(field, text) !== undefined ? {} : { [name]: Number(text) };
}
