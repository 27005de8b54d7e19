import type { AnswerFormat } from "./answer-format.ts";
import { eventsIn } from "./event-stream.ts";

/** Tokens as an engine has counted them; undefined: it did not say. */
export interface Usage {
  input: number | undefined;
  output: number | undefined;
  /** llama.cpp's figures: the prompt tokens that were not in its cache, and the milliseconds that reading them took. */
  promptTokens?: number;
  promptMs?: number;
}

const usageMark = Buffer.from('"usage"');
const timingsMark = Buffer.from('"timings"');
const dataMark = Buffer.from("data: {");
/** In each event with a part of the answer, in every protocol but that of chats: a type such as `content_block_delta`. */
const deltaMark = Buffer.from('delta"');
/** Before the mark: the end of a message, or a signature of its thoughts. */
const other = /(?:message|signature)_$/;
/** The object of the count is short, and stands at the end of an answer or, with embeddings, near its start. */
const usageChars = 512;
const nearStart = 1024;
const nearEnd = 4096;
/** A larger number is no count, and would spoil counters and the demand that is published. */
const mostCount = 1e9;
const inputCount = /"(?:prompt|input)_tokens"\s*:\s*(\d+)/;
const outputCount = /"(?:completion|output)_tokens"\s*:\s*(\d+)/;
/**
 * llama.cpp's fields: prompt tokens that were not in its cache, those that were, the time for reading them, and the
 * answer's tokens.
 */
const timedPrompt = /"prompt_n"\s*:\s*(\d+)/;
const timedCache = /"cache_n"\s*:\s*(\d+)/;
const timedPromptMs = /"prompt_ms"\s*:\s*([\d.]+)/;
const timedOutput = /"predicted_n"\s*:\s*(\d+)/;
/** Text, thoughts or arguments of an event, in any of the protocols; the first event of a chat has an empty text. */
const token = /"(?:content|reasoning_content|reasoning|text|thinking|arguments|partial_json|delta)"\s*:\s*"[^"]/;
const tokens = new RegExp(token, "g");

/** Adds the count within these bytes of an engine's answer to `usage`: whole JSON, or lines of a stream's end. */
export function readUsage(bytes: Buffer, usage: Usage): void {
  const at = bytes.length <= nearEnd ? bytes.lastIndexOf(usageMark) : usageIn(bytes);
  if (at >= 0) {
    const text = bytes.toString("latin1", at, Math.min(bytes.length, at + usageChars));
    usage.input = numberIn(inputCount, text) ?? usage.input;
    usage.output = numberIn(outputCount, text) ?? usage.output;
  }
  const end = usage.output === undefined ? 0 : Math.max(0, bytes.length - nearEnd);
  const timings = bytes.subarray(end).lastIndexOf(timingsMark) + end;
  if (timings < end) return;
  const text = bytes.toString("latin1", timings, Math.min(bytes.length, timings + usageChars));
  const prompt = numberIn(timedPrompt, text);
  const promptMs = numberIn(timedPromptMs, text);
  if (prompt !== undefined && promptMs !== undefined) Object.assign(usage, { promptTokens: prompt, promptMs });
  if (usage.output !== undefined) return;
  usage.output = numberIn(timedOutput, text);
  if (prompt !== undefined) usage.input = prompt + (numberIn(timedCache, text) ?? 0);
}

/** Where the count of a long answer begins; -1 where it has none. */
function usageIn(bytes: Buffer): number {
  const from = bytes.length - nearEnd;
  const at = bytes.subarray(from).lastIndexOf(usageMark);
  return at >= 0 ? from + at : bytes.subarray(0, nearStart).indexOf(usageMark);
}

function numberIn(pattern: RegExp, text: string): number | undefined {
  const found = Number(pattern.exec(text)?.[1]);
  return found <= mostCount ? found : undefined;
}

/** Counts the tokens of one answer as it passes by. */
export class AnswerMeter {
  usage: Usage | undefined;
  #hasTokens = false;

  /** Returns the answer unchanged. */
  whole(body: Buffer): Buffer {
    readUsage(body, this.#counted());
    return body;
  }

  /** Whole lines of an event stream. `isEnding`: its last token has come. Returns how many tokens they bring. */
  events(lines: Buffer | undefined, isEnding: boolean, { endMark }: Pick<AnswerFormat, "endMark">): number {
    if (lines === undefined) return 0;
    // The stream of a chat has its count at the end; those of other protocols have parts of it in several events.
    if (isEnding || (endMark !== undefined && lines.includes(usageMark))) readUsage(lines, this.#counted());
    // Other protocols repeat the whole text at the end of each part.
    if (endMark !== undefined) {
      this.#hasTokens ||= token.test(lines.toString("latin1"));
      return this.#hasTokens ? deltasIn(lines) : 0;
    }
    // The first and the last events may bring a role, a reason or a count alone; all others bring a token.
    if (this.#hasTokens && !isEnding) return eventsIn(lines);
    const count = lines.toString("latin1").match(tokens)?.length ?? 0;
    this.#hasTokens ||= count > 0;
    return count;
  }

  #counted(): Usage {
    return (this.usage ??= { input: undefined, output: undefined });
  }
}

/** Events that have the mark of a part. */
function deltasIn(lines: Buffer): number {
  let count = 0;
  let delta = -1;
  for (let at = lines.indexOf(dataMark); at >= 0;) {
    if (delta < at) delta = lines.indexOf(deltaMark, at);
    if (delta < 0) break;
    const next = lines.indexOf(dataMark, at + dataMark.length);
    if ((next < 0 || delta < next) && !other.test(lines.toString("latin1", Math.max(0, delta - 10), delta))) count += 1;
    at = next;
  }
  return count;
}
