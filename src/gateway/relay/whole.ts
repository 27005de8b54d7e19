import { ApiError } from "../../api/errors.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { toApiError } from "../http/answer.ts";
import { Charge, type BufferBudget } from "../slots/budget.ts";

/** A JSON answer is small; a larger one is relayed without waiting for its end. */
const wholeLimitBytes = 8 * 1024 * 1024;
/** A translated answer cannot be relayed in pieces: a larger one is refused. */
const translatedLimitBytes = 16 * 1024 * 1024;
/** Up to this size an answer costs no more than the buffers of its connections. */
const uncountedBytes = 65_536;

/** An answer that is buffered until its end, bounded and charged to the budget. */
export class BufferedAnswer implements Disposable {
  readonly #gathered = new GatheredBytes();
  readonly #charge: Charge;
  readonly #limitBytes: number;
  #isCharged = false;

  constructor(budget: BufferBudget, { isTranslated }: { isTranslated: boolean }) {
    this.#charge = new Charge(budget);
    this.#limitBytes = isTranslated ? translatedLimitBytes : wholeLimitBytes;
  }

  /** Keeps the bytes in any case. Returns why no more may be kept; undefined: more may. */
  add(bytes: Buffer): ApiError | undefined {
    this.#gathered.add(bytes);
    const { size } = this.#gathered;
    if (size <= uncountedBytes) return undefined;
    if (size > this.#limitBytes)
      return new ApiError("dispatch.upstream_failed", { message: "the answer is too large to be translated" });
    try {
      this.#charge.take(this.#isCharged ? bytes.length : size);
      this.#isCharged = true;
      return undefined;
    } catch (error) {
      return toApiError(error);
    }
  }

  /** All bytes; the charge stays until it is disposed. */
  take(): Buffer {
    return this.#gathered.take();
  }

  [Symbol.dispose](): void {
    this.#gathered.clear();
    this.#charge.end();
  }
}

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
