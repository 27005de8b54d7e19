import { parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * A whole answer of an engine that was asked for a stream, as the events of that stream: role, content, finish reason,
 * `[DONE]`. Undefined for an answer that is neither a chat completion nor a completion.
 */
export function wholeAsEvents(body: Buffer): Buffer | undefined {
  const answer = parseForeign(body);
  if (!isRecord(answer) || !Array.isArray(answer["choices"])) return undefined;
  const choices = answer["choices"].filter(isRecord);
  const { choices: _choices, object: _object, usage, ...head } = answer;
  const count = usage === undefined || usage === null ? {} : { usage };
  if (choices.length > 0 && choices.every(({ message }) => isRecord(message))) {
    const chunk = { ...head, object: "chat.completion.chunk" };
    return encoded([
      { ...chunk, choices: choices.map((choice, at) => part(choice, at, { role: "assistant", content: "" })) },
      { ...chunk, choices: choices.map((choice, at) => ({ ...rest(choice), ...part(choice, at, deltaOf(choice)) })) },
      { ...chunk, choices: choices.map((choice, at) => ({ ...part(choice, at, {}), ...reasonOf(choice) })), ...count },
    ]);
  }
  if (choices.length > 0 && choices.every(({ text }) => typeof text === "string"))
    return encoded([{ ...head, object: "text_completion", choices, ...count }]);
  return undefined;
}

function part({ index }: Fields, at: number, delta: object): object {
  return { index: typeof index === "number" ? index : at, delta, finish_reason: null };
}

/** Log probabilities, and additions of engines. */
function rest({ message: _message, finish_reason: _reason, index: _index, ...others }: Fields): object {
  return others;
}

function reasonOf({ finish_reason: reason }: Fields): object {
  return { finish_reason: typeof reason === "string" ? reason : "stop" };
}

/** Parts of a call are put together by their index. */
function deltaOf({ message }: Fields): object {
  const { role: _role, tool_calls: calls, ...delta }: Fields = isRecord(message) ? message : {};
  if (!Array.isArray(calls)) return delta;
  return { ...delta, tool_calls: calls.map((call: unknown, index) => (isRecord(call) ? { index, ...call } : call)) };
}

function encoded(events: readonly object[]): Buffer {
  return Buffer.from(`${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")}data: [DONE]\n\n`);
}
