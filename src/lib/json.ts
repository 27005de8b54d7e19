import { randomUUID } from "node:crypto";
import { stringEnd } from "./json-bytes.ts";
import { JsonWalk, mostDepth } from "./json-walk.ts";

declare global {
  /** Of ECMAScript 2026: Node 24 has them, TypeScript's own types do not. */
  interface JSON {
    rawJSON(text: string): object;
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
/** A text of this size is parsed at once, whatever it holds, and cannot be too deep. */
const smallBytes = 2048;

/** The bounds of a text that is parsed into objects, for messages. */
export const parsedBounds = `${mostDepth} levels, ${mostParsedValues} names and values, and 16 MiB`;

/** Whether a text is within the bounds in which it may be parsed into objects while others wait. */
export function isParseable(text: string | Buffer): boolean {
  if (text.length <= smallBytes) return true;
  if (text.length > mostParsedBytes) return false;
  const bytes = typeof text === "string" ? Buffer.from(text) : text;
  const walk = new JsonWalk(bytes, mostParsedValues);
  walk.valueEnd(walk.blankEnd(0));
  return !walk.isExcessive;
}

/** The JSON value of somebody else's text; undefined for invalid JSON, and for a text that is not `isParseable`. */
export function parseForeign(text: string | Buffer): unknown {
  return isParseable(text) ? parseJson(text) : undefined;
}

/**
 * The same for a value that is serialised again: a number within it that a double cannot hold (a whole number beyond
 * 2^53, or 1e400) is an object that `JSON.stringify` writes as the text has it. Only `JSON.rawJSON` makes such objects, so
 * that no text can pretend to be one.
 */
export function parseExactJson(text: string | Buffer): unknown {
  if (!isParseable(text)) return undefined;
  const json = text.toString();
  if (!mayLoseNumbers(json)) return parseJson(json);
  // As strings with a mark: a reviver that reads the source of numbers costs forty times as much as parsing.
  const value = parseJson(withMarkedNumbers(Buffer.from(json)));
  if (typeof value === "string" && value.startsWith(mark)) return Number(json);
  try {
    keepMarkedNumbers(value);
    return value;
  } catch (error) {
    // A marked number that is no number of JSON, such as 01234567890123456789.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Finds little in most texts, but much in pictures as base64. */
const longNumber = /\d(?:\d{15}|[eE][+\d])/;
/** Slower, and only for a number that may stand by itself. */
const longValue = /[\s:,[]-?\d(?:\d{15}|[\d.]*[eE][+\d])/;

/** Whether a JSON text may have a number that a double cannot hold. */
export function mayLoseNumbers(json: string): boolean {
  return longNumber.test(json) && longValue.test(json);
}

/** No text of others has it. */
const mark = `${randomUUID()}:`;
const quote = 0x22;
const numbers = /-?\d[\d.eE+-]*/g;

function withMarkedNumbers(bytes: Buffer): string {
  const parts: string[] = [];
  let at = 0;
  while (at < bytes.length) {
    const start = bytes.indexOf(quote, at);
    const between = bytes.toString("latin1", at, start < 0 ? bytes.length : start);
    parts.push(longNumber.test(between) ? between.replaceAll(numbers, marked) : between);
    if (start < 0) break;
    const end = stringEnd(bytes, start);
    at = end < 0 ? bytes.length : end;
    parts.push(bytes.toString("utf8", start, at));
  }
  return parts.join("");
}

function marked(source: string): string {
  const value = Number(source);
  const isKept = Number.isSafeInteger(value) || (!Number.isInteger(value) && Number.isFinite(value));
  return isKept || Number.isNaN(value) ? source : `"${mark}${source}"`;
}

/** Of a depth that was counted. */
function keepMarkedNumbers(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    if (typeof inner !== "string") keepMarkedNumbers(inner);
    else if (inner.startsWith(mark)) {
      const exact = JSON.rawJSON(inner.slice(mark.length));
      // Not by assignment, which `__proto__` takes for itself.
      Object.defineProperty(value, name, { value: exact, enumerable: true, writable: true, configurable: true });
    }
  }
}
