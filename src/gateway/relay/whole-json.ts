import { parseForeign } from "../../lib/json.ts";

/** The message for an engine's answer that is no JSON although its type says so. */
export const notJson = "the engine's answer is not JSON";

/**
 * Whether bytes can be a JSON text: a cut answer, or an error page with JSON's type, is none. Of an object or a list only
 * the ends are compared, since parsing every answer would cost more than the rest of its relay.
 */
export function isWholeJson(bytes: Buffer): boolean {
  let start = 0;
  let end = bytes.length - 1;
  while (isSpace(bytes[start])) start += 1;
  while (isSpace(bytes[end])) end -= 1;
  if (bytes[start] === 0x7b) return end > start && bytes[end] === 0x7d;
  if (bytes[start] === 0x5b) return end > start && bytes[end] === 0x5d;
  return parseForeign(bytes) !== undefined;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
