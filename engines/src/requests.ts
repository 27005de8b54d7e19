import { randomInt } from "node:crypto";
import { Refusal } from "./refusal.ts";

export interface Sampling {
  readonly maxTokens: number | undefined;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number | undefined;
  readonly minP: number;
  readonly penalties: { readonly repeat: number; readonly frequency: number; readonly presence: number } | undefined;
  readonly seed: number;
  readonly stop: readonly string[];
  readonly isStream: boolean;
  readonly hasUsage: boolean;
}

export type Body = Readonly<Record<string, unknown>>;

/** The gateway's own bounds (docs/security.md). A larger body would hold up other answers while it is parsed. */
const mostValues = 100_000;
const mostDepth = 256;

/** The body as an object. Throws Refusal, also for a body that holds too much to be parsed. */
export function readBody(text: string): Body {
  if (isHeavy(text))
    throw new Refusal(400, `the body holds too much: at most ${mostDepth} levels, ${mostValues} names and values`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Refusal(400, "the body is not JSON");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
    throw new Refusal(400, "the body is not a JSON object");
  return { ...parsed };
}

/** Counts without parsing; strings are skipped. */
function isHeavy(text: string): boolean {
  let values = 0;
  let depth = 0;
  for (let at = 0; at < text.length && values <= mostValues && depth <= mostDepth; at += 1) {
    const letter = text[at];
    if (letter === '"') at = stringEnd(text, at);
    else if (letter === "," || letter === ":") values += 1;
    else if (letter === "[" || letter === "{") {
      depth += 1;
      values += 1;
    } else if (letter === "]" || letter === "}") depth -= 1;
  }
  return values > mostValues || depth > mostDepth;
}

/** The offset of the quotation mark that ends the string from `start`; the text's length without one. */
function stringEnd(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let before = at;
    while (text[before - 1] === "\\") before -= 1;
    if ((at - before) % 2 === 0) return at;
  }
  return text.length;
}

/** The options of sampling. Refuses those that this engine would otherwise ignore. Throws Refusal. */
export function readSampling(body: Body): Sampling {
  for (const key of ["n", "best_of"]) {
    if ((number(body, key, 1, 1e9) ?? 1) > 1) throw new Refusal(400, `this engine gives one choice: ${key} must be 1`);
  }
  for (const key of ["logprobs", "top_logprobs", "logit_bias", "suffix", "echo"]) {
    const value = body[key];
    const isEmpty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
    if (value !== undefined && value !== null && value !== false && value !== "" && value !== 0 && !isEmpty)
      throw new Refusal(400, `this engine has no ${key}`);
  }
  const options = body["stream_options"];
  return {
    maxTokens:
      number(body, "max_completion_tokens", -1, 1e9) ??
      number(body, "max_tokens", -1, 1e9) ??
      number(body, "n_predict", -1, 1e9),
    temperature: number(body, "temperature", 0, 2) ?? 0.8,
    topP: number(body, "top_p", 0, 1) ?? 0.95,
    topK: number(body, "top_k", -1, 1e9),
    minP: number(body, "min_p", 0, 1) ?? 0.05,
    penalties: readPenalties(body),
    // The library's own default is the second of the clock: two requests in one second would get the same answer.
    seed: (number(body, "seed", -1, Number.MAX_SAFE_INTEGER) ?? randomInt(2 ** 32)) % 2 ** 32,
    stop: readStop(body["stop"]),
    isStream: body["stream"] === true,
    hasUsage:
      typeof options === "object" && options !== null && "include_usage" in options && options.include_usage === true,
  };
}

function readPenalties(body: Body): Sampling["penalties"] {
  const repeat = number(body, "repeat_penalty", 0, 10) ?? 1;
  const frequency = signed(body, "frequency_penalty");
  const presence = signed(body, "presence_penalty");
  return repeat === 1 && frequency === 0 && presence === 0 ? undefined : { repeat, frequency, presence };
}

function signed(body: Body, key: string): number {
  const value = body[key] ?? 0;
  if (typeof value !== "number" || !(value >= -2 && value <= 2))
    throw new Refusal(400, `${key} must be a number from -2 to 2`);
  return value;
}

function number(body: Body, key: string, min: number, max: number): number | undefined {
  const value = body[key];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || Number.isNaN(value) || value < min || value > max) {
    throw new Refusal(400, `${key} must be a number from ${min} to ${max}`);
  }
  return value < 0 ? undefined : value;
}

function readStop(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  const list = Array.isArray(value) ? value : [value];
  return list
    .map((item) => {
      if (typeof item !== "string") throw new Refusal(400, "stop must be a text or a list of texts");
      return item;
    })
    .filter((item) => item !== "");
}

/** A text of a request, and its place there, such as `input[1]`. */
export interface PlacedText {
  readonly text: string;
  readonly place: string;
}

/** As `readTexts`, with the place of each text. */
export function readPlacedTexts(value: unknown, key: string): PlacedText[] {
  return readTexts(value, key).map((text, index) => ({ text, place: Array.isArray(value) ? `${key}[${index}]` : key }));
}

/** A text, or a list of them. Throws Refusal for anything else, and for an empty list. */
export function readTexts(value: unknown, key: string): string[] {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0) throw new Refusal(400, `${key} is empty`);
  return list.map((item) => {
    if (typeof item !== "string") throw new Refusal(400, `${key} must be a text or a list of texts`);
    return item;
  });
}
