import { isBlank } from "./json-bytes.ts";
import { JsonWalk, mostDepth } from "./json-walk.ts";

declare global {
  /** Functions of ECMAScript 2026: Node 24 has them, TypeScript's own types do not. */
  interface JSON {
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
    parse(
      text: string,
      reviver: (name: string, value: unknown, context: { readonly source?: string }) => unknown,
    ): unknown;
  }
}

/** The JSON value of a text of our own; undefined for invalid JSON, since no JSON value is undefined. */
export function parseJson(text: string | Buffer): unknown {
  try {
    return JSON.parse(text.toString());
  } catch {
    return undefined;
  }
}

/** Names and values of a text that is parsed into objects: 20 to 50 ms where each name is new. */
const mostParsedValues = 100_000;
/** Texts and pictures take 5 to 12 ms for each MiB until they are written again. */
export const mostParsedBytes = 16 * 1024 * 1024;
/** In a text of more names and values a number is a double: a reviver takes 1 to 2 microseconds for each of them. */
const mostExactValues = 20_000;
/** A text of this size is parsed at once, whatever it holds, and cannot be too deep. */
const smallBytes = 2048;

/** The bounds of a text that is parsed into objects, for messages. */
export const parsedBounds = `${mostDepth} levels, ${mostParsedValues} names and values, and 16 MiB`;

/**
 * The number of names and values in a text that may be parsed into objects while others wait, or more than that in a small
 * text; undefined where the text is beyond a bound.
 */
export function parsedValues(text: string | Buffer): number | undefined {
  if (text.length <= smallBytes) return text.length;
  if (text.length > mostParsedBytes) return undefined;
  const bytes = typeof text === "string" ? Buffer.from(text) : text;
  const walk = new JsonWalk(bytes, mostParsedValues);
  walk.valueEnd(walk.blankEnd(0));
  return walk.isExcessive ? undefined : walk.values;
}

/** Whether a text is within the bounds in which it may be parsed into objects while others wait. */
export function isParseable(text: string | Buffer): boolean {
  return parsedValues(text) !== undefined;
}

/** The JSON value of somebody else's text; undefined for invalid JSON, and for a text that is not `isParseable`. */
export function parseForeign(text: string | Buffer): unknown {
  return isParseable(text) ? parseJson(text) : undefined;
}

/**
 * The same for a value that is serialised again: a number that a double cannot hold (a whole number beyond 2^53, or 1e400)
 * is an object that `JSON.stringify` writes as the text has it, where the text has at most `mostExactValues` names and
 * values. Only `JSON.rawJSON` makes such objects, so that no text can pretend to be one.
 */
export function parseExactJson(text: string | Buffer): unknown {
  const values = parsedValues(text);
  if (values === undefined) return undefined;
  const json = text.toString();
  return keepsNumbers(json, values) ? withExactNumbers(json) : parseJson(json);
}

/** Finds little in most texts, but much in pictures as base64. */
const longNumber = /\d(?:\d{15}|[eE][+\d])/;
/** Slower, and only for a number that may stand by itself. */
const longValue = /[\s:,[]-?\d(?:\d{15}|[\d.]*[eE][+\d])/;

/** Whether a JSON text of so many names and values may have a number that a double cannot hold, and that is kept. */
export function keepsNumbers(json: string, values: number): boolean {
  return values <= mostExactValues && longNumber.test(json) && longValue.test(json);
}

/**
 * The JSON value of a text with the numbers that a double cannot hold as objects, unless the text is one number; undefined
 * for invalid JSON.
 */
export function withExactNumbers(json: string): unknown {
  try {
    const value = JSON.parse(json, exactNumber);
    return JSON.isRawJSON(value) ? Number(json) : value;
  } catch {
    return undefined;
  }
}

function exactNumber(_name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== "number" || source === undefined) return value;
  const isKept = Number.isSafeInteger(value) || (!Number.isInteger(value) && Number.isFinite(value));
  return isKept ? value : JSON.rawJSON(source);
}

/**
 * Whether bytes can be a JSON text: a cut answer, or an error page with JSON's type, is none. Of an object or a list only
 * the ends are compared, since parsing every answer would cost more than the rest of its relay.
 */
export function isWholeJson(bytes: Buffer): boolean {
  let start = 0;
  let end = bytes.length - 1;
  while (isBlank(bytes[start])) start += 1;
  while (isBlank(bytes[end])) end -= 1;
  if (bytes[start] === 0x7b) return end > start && bytes[end] === 0x7d;
  if (bytes[start] === 0x5b) return end > start && bytes[end] === 0x5d;
  return parseForeign(bytes) !== undefined;
}
