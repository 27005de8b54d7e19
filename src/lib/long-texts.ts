import { randomUUID } from "node:crypto";
import { hasEscape, isBlank, stringEnd } from "./json-bytes.ts";

/** A shorter string costs more to set aside than to parse. */
const longBytes = 16_384;
/** A shortened string keeps its beginning, by which data URLs are told. */
const keptBytes = 256;

const quote = 0x22;
const colon = 0x3a;
/** No text of others has it. */
const mark = Buffer.from(randomUUID());

/** Decides on the string between these offsets, quotes included. */
type IsShortened = (bytes: Buffer, start: number, end: number) => boolean;

/**
 * The same JSON text with long strings shortened, so that parsing and writing it costs nothing for them; the same buffer where
 * none is. A shortened string ends with a mark, by which `withLongTexts` finds the rest.
 */
export function withoutLongTexts(bytes: Buffer, isShortened: IsShortened): Buffer {
  const parts: Buffer[] = [];
  let copied = 0;
  for (let start = bytes.indexOf(quote); start >= 0;) {
    const end = stringEnd(bytes, start);
    if (end < 0) break;
    const from = keptEnd(bytes, start);
    if (end - start > longBytes && !hasEscape(bytes, start, from) && isShortened(bytes, start, end)) {
      parts.push(bytes.subarray(copied, from), mark, Buffer.from(`:${from}:${end - 1}:`));
      copied = end - 1;
    }
    start = bytes.indexOf(quote, end);
  }
  if (parts.length === 0) return bytes;
  parts.push(bytes.subarray(copied));
  return Buffer.concat(parts);
}

/** The number of bytes that a text in base64 stands for, shortened or not; of a shortened text up to two too many. */
export function base64Bytes(text: string): number {
  const at = text.indexOf(mark.toString());
  const [, from, to] = at < 0 ? [] : (/^:(\d+):(\d+):/.exec(text.slice(at + mark.length)) ?? []);
  if (from === undefined || to === undefined) return Buffer.byteLength(text, "base64");
  return Math.floor(((at + Number(to) - Number(from)) * 3) / 4);
}

/** `json` with each mark replaced by the text that it stands for in `bytes`. */
export function withLongTexts(json: string, bytes: Buffer): Buffer {
  const marked = Buffer.from(json);
  const parts: Buffer[] = [];
  let copied = 0;
  for (let at = marked.indexOf(mark); at >= 0; at = marked.indexOf(mark, copied)) {
    const place = at + mark.length;
    const [, from, to] = /^:(\d+):(\d+):/.exec(marked.toString("latin1", place, place + 32)) ?? [];
    if (from === undefined || to === undefined) break;
    parts.push(marked.subarray(copied, at), bytes.subarray(Number(from), Number(to)));
    copied = place + from.length + to.length + 3;
  }
  if (parts.length === 0) return marked;
  parts.push(marked.subarray(copied));
  return Buffer.concat(parts);
}

/** Between two characters of UTF-8. */
function keptEnd(bytes: Buffer, start: number): number {
  let end = Math.min(bytes.length, start + 1 + keptBytes);
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return end;
}

/** The fields of pictures, sounds and files in the protocols that are translated. */
const mediaNames = ["data", "url", "image_url", "file_data"].map((name) => Buffer.from(`"${name}"`));

/**
 * The string is the content of a picture or a file, written without escapes: it can stand in any other JSON text as it is
 * written, within another string too.
 */
export function isMedia(bytes: Buffer, start: number, end: number): boolean {
  let at = start - 1;
  while (isBlank(bytes[at])) at -= 1;
  if (bytes[at] !== colon) return false;
  at -= 1;
  while (isBlank(bytes[at])) at -= 1;
  const isNamed = mediaNames.some((name) => bytes.subarray(Math.max(0, at + 1 - name.length), at + 1).equals(name));
  return isNamed && !hasEscape(bytes, start, end);
}
