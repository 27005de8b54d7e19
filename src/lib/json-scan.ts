import { foldCase } from "./fold-case.ts";
import { isPlain } from "./json-bytes.ts";
import { JsonWalk } from "./json-walk.ts";
import { KnownTexts } from "./known-texts.ts";
import { shapingNames } from "./shaping-names.ts";

/** The places of the fields of a request body, found without parsing it. Offsets are bytes. */
export interface ScannedBody {
  /** The value of the top-level `model`, when it is a string. */
  readonly model: string | undefined;
  /** There is a top-level `model`, of whatever kind. */
  readonly hasModel: boolean;
  /** Where that string's quotes begin and end. */
  readonly modelStart: number;
  readonly modelEnd: number;
  /** Top-level `stream` is `true`. */
  readonly isStream: boolean;
  /**
   * The first name that the gateway reads and that stands there twice, in letters of another case, or with escapes. Parsers
   * differ in which of them they take, so that no two readers need agree on what was asked.
   */
  readonly ambiguous: string | undefined;
  /** How the values of these begin; 0 where they are not there. */
  readonly first: Readonly<Record<ScannedInput | "stream", number>>;
  /** The start of the value of the last of `messages`, `prompt` and `input`; -1 without one. */
  readonly inputStart: number;
  /** Top-level fields that constrain the answer's form. */
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

/** The fields that hold the input, by protocol. */
export type ScannedInput = "messages" | "prompt" | "input";

const none: readonly ScannedField[] = [];

const quote = 0x22;
/** No other value of JSON begins so. */
const firstOfTrue = 0x74;
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
  let ambiguous: string | undefined;
  let hasModel = false;
  let shaping: ScannedField[] | undefined;
  const first = { messages: 0, prompt: 0, input: 0, stream: 0 };
  const seen: string[] = [];
  const isRead = walk.fields((keyStart, keyEnd, valueStart, end) => {
    const name = readName(bytes, keyStart, keyEnd);
    if (name === undefined) return true;
    if (seen.includes(name) || bytes.toString("latin1", keyStart + 1, keyEnd - 1) !== name) ambiguous ??= name;
    else seen.push(name);
    if (name === "model") {
      hasModel = true;
      if (bytes[valueStart] !== quote) return true;
      model = nameText(bytes, valueStart, end);
      modelStart = valueStart;
      modelEnd = end;
      return model !== undefined;
    }
    if (name === "stream") {
      first.stream = bytes[valueStart] ?? 0;
      isStream = first.stream === firstOfTrue;
    } else if (isInput(name)) {
      first[name] = bytes[valueStart] ?? 0;
      inputStart = valueStart;
    } else (shaping ??= []).push({ name, start: valueStart, end });
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

const inputNames: readonly ScannedInput[] = ["messages", "prompt", "input"];

function isInput(name: string): name is ScannedInput {
  return inputNames.some((input) => input === name);
}

/** The place of a name in `places`: few of them have the same length and the same first letter. */
const placeOf = (length: number, firstByte: number): number => length * 32 + (firstByte & 31);

/** The names that the gateway reads. */
const readNames = ["model", "stream", ...inputNames, ...shapingNames];
const places = Map.groupBy(readNames, (name) => placeOf(name.length, name.charCodeAt(0)));

/** The name that the gateway reads under that key, also where it has letters of another case, or escapes. */
function readName(bytes: Buffer, start: number, end: number): string | undefined {
  const likely = places.get(placeOf(end - start - 2, bytes[start + 1] ?? 0));
  const found = likely?.find((name) => hasLetters(bytes, start, name));
  if (found !== undefined || isPlain(bytes, start, end)) return found;
  const key = text(bytes, start, end);
  return key === undefined ? undefined : readNames.find((name) => name === foldCase(key));
}

/** The bit in which a capital differs from its small letter. */
const caseBit = 0x20;

/** Whether a key has the letters of a name, in whatever case. Makes no string: keys may be many. */
function hasLetters(bytes: Buffer, start: number, name: string): boolean {
  for (let at = 0; at < name.length; at++)
    if (((bytes[start + 1 + at] ?? 0) | caseBit) !== (name.charCodeAt(at) | caseBit)) return false;
  return true;
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
