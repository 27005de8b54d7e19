import { hasEscape } from "./json-bytes.ts";
import { JsonWalk } from "./json-walk.ts";
import { KnownTexts } from "./known-texts.ts";
import { longestShaping, shapingLetters, shapingNames } from "./shaping-names.ts";

/** The places of the fields of a request body, found without parsing it. Offsets are bytes. */
export interface ScannedBody {
  /** The value of the last top-level `model`, when it is a string. */
  readonly model: string | undefined;
  /** There is a top-level `model`, of whatever kind. */
  readonly hasModel: boolean;
  /** Where that string's quotes begin and end. */
  readonly modelStart: number;
  readonly modelEnd: number;
  /** Top-level `stream` is `true`. */
  readonly isStream: boolean;
  /**
   * The first of the two names above that stands there twice, or in letters of another case or with escapes. Parsers
   * differ in which of them they take, so that no two readers need agree on what was asked.
   */
  readonly ambiguous: ScannedName | undefined;
  /** How the values of these begin, by what stands there last: 0 where they are not there, or are spelt with escapes. */
  readonly first: Readonly<Record<ScannedInput | "stream", number>>;
  /** The start of the value of the last of `messages`, `prompt` and `input`; -1 without one. */
  readonly inputStart: number;
  /** Top-level fields that constrain the answer's form, one entry per occurrence. */
  readonly shaping: readonly ScannedField[];
  /** A string may be an address with the scheme http, https, ftp or file. */
  readonly mayNameAddress: boolean;
  /** The body is beyond a bound of `JsonWalk`; nothing else is known then. */
  readonly isExcessive: boolean;
}

export interface ScannedField {
  readonly name: string;
  /** Where its value begins and ends. */
  readonly start: number;
  readonly end: number;
}

type ScannedName = "model" | "stream";
/** The fields that hold the input, by protocol. */
export type ScannedInput = "messages" | "prompt" | "input";

const none: readonly ScannedField[] = [];

const quote = 0x22;
const backslash = 0x5c;
const letterU = 0x75;
const letterS = 0x73;
const longS = 0x17f;
/**
 * Finds `model` and `stream` at the top level of a JSON object. Undefined when the bytes are not an object as far as
 * this looks: the caller then parses, to say what is wrong. For every valid JSON object it finds what JSON.parse
 * would; of an invalid one it may find anything, and whoever reads the body next refuses it.
 */
export function scanBody(bytes: Buffer): ScannedBody | undefined {
  const walk = new JsonWalk(bytes);
  const scanned = scanFields(bytes, walk);
  return walk.isExcessive ? excessive : scanned;
}

const excessive: ScannedBody = {
  model: undefined,
  hasModel: false,
  modelStart: -1,
  modelEnd: -1,
  isStream: false,
  ambiguous: undefined,
  first: { messages: 0, prompt: 0, input: 0, stream: 0 },
  inputStart: -1,
  shaping: none,
  mayNameAddress: false,
  isExcessive: true,
};

function scanFields(bytes: Buffer, walk: JsonWalk): ScannedBody | undefined {
  let model: string | undefined;
  let modelStart = -1;
  let modelEnd = -1;
  let inputStart = -1;
  let isStream = false;
  let ambiguous: ScannedName | undefined;
  let hasModel = false;
  let hasStream = false;
  let shaping: ScannedField[] | undefined;
  const first = { messages: 0, prompt: 0, input: 0, stream: 0 };
  const isRead = walk.fields((keyStart, keyEnd, valueStart, end) => {
    if (isKey(bytes, keyStart, keyEnd, "model")) {
      if (hasModel || !isPlain(keyStart, keyEnd, "model")) ambiguous ??= "model";
      hasModel = true;
      const isText = bytes[valueStart] === quote;
      model = isText ? nameText(bytes, valueStart, end) : undefined;
      if (isText && model === undefined) return false;
      modelStart = isText ? valueStart : -1;
      modelEnd = isText ? end : -1;
    } else if (isKey(bytes, keyStart, keyEnd, "stream")) {
      if (hasStream || !isPlain(keyStart, keyEnd, "stream")) ambiguous ??= "stream";
      hasStream = true;
      first.stream = bytes[valueStart] ?? 0;
      isStream = end - valueStart === 4 && bytes.toString("latin1", valueStart, end) === "true";
    } else if (isLike(bytes, keyStart, keyEnd, "model")) ambiguous ??= "model";
    else if (isLike(bytes, keyStart, keyEnd, "stream")) ambiguous ??= "stream";
    else {
      const input = inputName(bytes, keyStart, keyEnd);
      if (input !== undefined) {
        first[input] = bytes[valueStart] ?? 0;
        inputStart = valueStart;
      }
      const name = shapingName(bytes, keyStart, keyEnd);
      if (name !== undefined) (shaping ??= []).push({ name, start: valueStart, end });
    }
    return true;
  });
  if (!isRead) return undefined;
  return {
    model,
    hasModel,
    modelStart,
    modelEnd,
    isStream,
    ambiguous,
    first,
    inputStart,
    shaping: shaping ?? none,
    mayNameAddress: walk.mayNameAddress,
    isExcessive: false,
  };
}

function isKey(bytes: Buffer, start: number, end: number, key: string): boolean {
  if (end - start === key.length + 2) {
    for (let at = 0; at < key.length; at++) if (bytes[start + 1 + at] !== key.charCodeAt(at)) return false;
    return true;
  }
  // A longer spelling is the same key only with escapes. Looked for in the key alone: keys may be many.
  if (end - start < key.length + 2 || !hasEscape(bytes, start, end)) return false;
  return text(bytes, start, end) === key;
}

const inputNames: readonly ScannedInput[] = ["messages", "prompt", "input"];

function inputName(bytes: Buffer, start: number, end: number): ScannedInput | undefined {
  if (end - start < 7 || end - start > 10) return undefined;
  return inputNames.find((name) => isPlain(start, end, name) && isKey(bytes, start, end, name));
}

/** Whether a key for which `isKey` holds is written without escapes. */
function isPlain(start: number, end: number, key: string): boolean {
  return end - start === key.length + 2;
}

/**
 * The key is `name` to a reader that folds case (Unicode's simple folding, in which U+017F is an `s` too). Letter by
 * letter, and without making a string: keys may be many.
 */
function isLike(bytes: Buffer, start: number, end: number, name: string): boolean {
  let at = start + 1;
  for (let index = 0; index < name.length; index++) {
    let code = bytes[at] ?? 0;
    if (code === backslash && bytes[at + 1] === letterU) {
      code = Number.parseInt(bytes.toString("latin1", at + 2, at + 6), 16);
      at += 6;
    } else if (code === 0xc5 && bytes[at + 1] === 0xbf) {
      code = longS;
      at += 2;
    } else at += 1;
    const letter = code === longS ? letterS : code >= 0x41 && code <= 0x5a ? code | 0x20 : code;
    if (letter !== name.charCodeAt(index)) return false;
  }
  return at === end - 1;
}

/** Most keys are told by their first letter, without making a string. */
function shapingName(bytes: Buffer, start: number, end: number): string | undefined {
  const isEscaped = hasEscape(bytes, start, end);
  if (!isEscaped && (end - start - 2 > longestShaping || !shapingLetters.has(bytes[start + 1] ?? 0))) return undefined;
  const name = isEscaped ? text(bytes, start, end) : bytes.toString("latin1", start + 1, end - 1);
  return name !== undefined && shapingNames.has(name) ? name : undefined;
}

const names = new KnownTexts();

/** The text of a model's name. */
function nameText(bytes: Buffer, start: number, end: number): string | undefined {
  const known = names.find(bytes, start, end);
  if (known !== undefined) return known;
  const name = text(bytes, start, end);
  if (name !== undefined) names.keep(bytes, start, end, name);
  return name;
}

function text(bytes: Buffer, start: number, end: number): string | undefined {
  try {
    const parsed: unknown = JSON.parse(bytes.toString("utf8", start, end));
    return typeof parsed === "string" ? parsed : undefined;
  } catch {
    return undefined;
  }
}
