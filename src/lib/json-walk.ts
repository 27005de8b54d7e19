import { isBlank, stringEnd } from "./json-bytes.ts";

/** Engines that read by recursion end where their stack does; people stay far below, and so does every client. */
export const mostDepth = 256;
/** The most members of one object: some engines compare each name with each. */
export const mostMembers = 5000;
/** Names and values of one text. A million tokens as numbers are a request of OpenAI's API for vectors. */
export const mostValues = 2_000_000;
/**
 * The bytes of one text outside its strings: they are looked at one by one, which takes 2 to 5 ms for each MiB. Strings, such
 * as pictures, are skipped by native code.
 */
export const mostPlainBytes = 8 * 1024 * 1024;

/** The cost of a string beside its text. */
const stringCost = 16;
/** A shorter text cannot be too deep. */
const longestShallow = 2 * mostDepth;
/** An address stands at the beginning of a text, or behind a few blanks. */
const blanksBeforeAddress = 64;

const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const colon = 0x3a;
const comma = 0x2c;
const space = 0x20;

/** The members of the objects that are open, by their depth: a walk never waits, so one is under way at most. */
const members = new Int32Array(mostDepth + 1);

/**
 * Walks over the values of one JSON text without parsing it, and counts them. The walk ends at the bounds above, so that no
 * text takes long. Each method returns -1 where the text is broken, or `isExcessive`.
 */
export class JsonWalk {
  readonly #bytes: Buffer;
  readonly #valueLimit: number;
  readonly #budget = { left: mostPlainBytes };
  #isExcessive = false;
  #values = 0;
  #names = 0;
  #mayNameAddress = false;

  /** The walk ends beyond `valueLimit` names and values. */
  constructor(bytes: Buffer, valueLimit: number = mostValues) {
    this.#bytes = bytes;
    this.#valueLimit = valueLimit;
  }

  /** The text is beyond a bound; nothing else is known then. */
  get isExcessive(): boolean {
    return this.#isExcessive;
  }

  /** The names and values so far. */
  get values(): number {
    return this.#values;
  }

  /** A string so far may be an address with the scheme http, https, ftp or file. */
  get mayNameAddress(): boolean {
    return this.#mayNameAddress;
  }

  /** The offset of the first byte at or after `from` that is not white space. */
  blankEnd(from: number): number {
    let at = from;
    while (isBlank(this.#bytes[at])) {
      at += 1;
      if (at - from > this.#budget.left) return this.#exceed();
    }
    this.#budget.left -= at - from;
    return at;
  }

  /**
   * Calls `onField` for each field of the text, which is one object, until it returns false: with the offsets of its name and
   * its value, and those after them. Returns whether the text was read to its end.
   */
  fields(onField: (start: number, nameEnd: number, valueStart: number, end: number) => boolean): boolean {
    const bytes = this.#bytes;
    let at = this.blankEnd(0);
    if (bytes[at] !== openBrace) return false;
    at = this.blankEnd(at + 1);
    while (bytes[at] !== closeBrace) {
      const start = at;
      const nameEnd = bytes[at] === quote ? this.#nameEnd(at) : -1;
      if (nameEnd < 0) return false;
      at = this.blankEnd(nameEnd);
      if (bytes[at] !== colon) return false;
      const valueStart = this.blankEnd(at + 1);
      const end = this.valueEnd(valueStart);
      if (end < 0 || !onField(start, nameEnd, valueStart, end)) return false;
      at = this.blankEnd(end);
      if (bytes[at] === closeBrace) break;
      if (bytes[at] !== comma) return false;
      at = this.blankEnd(at + 1);
      if (bytes[at] !== quote) return false;
    }
    return this.blankEnd(at + 1) === bytes.length;
  }

  #nameEnd(from: number): number {
    this.#values += 1;
    this.#names += 1;
    if (this.#names > mostMembers) return this.#exceed();
    return this.#stringEnd(from);
  }

  /** The offset after the value that begins at `from`. */
  valueEnd(from: number): number {
    this.#values += 1;
    const first = this.#bytes[from];
    if (first === quote) return this.#textEnd(from);
    if (first === openBrace || first === openBracket) return this.#nestedEnd(from);
    let at = from;
    for (;;) {
      const byte = this.#bytes[at];
      if (byte === undefined || byte === comma || byte === closeBrace || byte <= space) break;
      at += 1;
      if (at - from > this.#budget.left) return this.#exceed();
    }
    this.#budget.left -= at - from;
    return at > from ? at : -1;
  }

  #nestedEnd(from: number): number {
    const bytes = this.#bytes;
    let stop = from + this.#budget.left;
    const valueLimit = this.#valueLimit;
    let values = this.#values;
    let depth = 0;
    let at = from;
    for (;;) {
      const byte = bytes[at];
      if (byte === quote) {
        this.#budget.left = stop - at;
        const end = this.#textEnd(at);
        if (end < 0) return -1;
        at = end;
        stop = at + this.#budget.left;
        continue;
      }
      if (byte === openBrace || byte === openBracket) {
        depth += 1;
        values += 1;
        if (depth > mostDepth) return this.#exceed();
        members[depth] = 0;
      } else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1;
        if (depth === 0) break;
      } else if (byte === comma) {
        values += 1;
        if (values > valueLimit) return this.#exceed();
      } else if (byte === colon) {
        values += 1;
        const count = (members[depth] ?? 0) + 1;
        if (count > mostMembers) return this.#exceed();
        members[depth] = count;
      } else if (byte === undefined) {
        this.#values = values;
        return -1;
      }
      at += 1;
      if (at > stop) return this.#exceed();
    }
    this.#budget.left = stop - at;
    this.#values = values;
    return at + 1;
  }

  #stringEnd(from: number): number {
    const end = stringEnd(this.#bytes, from, this.#budget);
    this.#budget.left -= stringCost;
    return this.#budget.left < 0 ? this.#exceed() : end;
  }

  /** The arguments of a tool's call are JSON in a string, which engines read for their templates. */
  #textEnd(from: number): number {
    const end = this.#stringEnd(from);
    if (end < 0) return -1;
    this.#mayNameAddress ||= this.#mayBeAddress(from + 1);
    if (end - from > longestShallow && isLikeJson(this.#bytes[from + 1])) {
      const { deepest, readBytes } = depthOf(this.#bytes, from + 1, Math.min(end - 1, from + 1 + this.#budget.left));
      this.#budget.left -= readBytes;
      if (deepest > mostDepth || this.#budget.left <= 0) return this.#exceed();
    }
    return end;
  }

  #mayBeAddress(start: number): boolean {
    const bytes = this.#bytes;
    let at = start;
    for (let blanks = 0; ; blanks += 1) {
      if (isBlank(bytes[at])) at += 1;
      else if (bytes[at] === backslash && isEscapedBlank(bytes[at + 1])) at += 2;
      else break;
      if (blanks > blanksBeforeAddress) return true;
    }
    this.#budget.left -= at - start;
    const first = (bytes[at] ?? 0) | 0x20;
    // No client escapes a letter of ASCII; an engine reads an address that is spelt so all the same.
    if (bytes[at] === backslash) return bytes[at + 1] === 0x75;
    if (first !== 0x66 && first !== 0x68) return false;
    return /^(?:https?|file|ftp):|^[a-z]*\\u/i.test(bytes.toString("latin1", at, at + 8));
  }

  #exceed(): -1 {
    this.#isExcessive = true;
    return -1;
  }
}

/** The letters of `\n`, `\r`, `\t` and `\f`. */
function isEscapedBlank(letter: number | undefined): boolean {
  return letter === 0x6e || letter === 0x72 || letter === 0x74 || letter === 0x66;
}

function isLikeJson(first: number | undefined): boolean {
  return first === openBrace || first === openBracket || first === backslash || first === space;
}

/**
 * The depth of the JSON text that is written within a string, from `start` to `end`, and the bytes that were read for it.
 * Reading ends beyond `mostDepth`, and where the text is no list and no object.
 */
function depthOf(bytes: Buffer, start: number, end: number): { deepest: number; readBytes: number } {
  let depth = 0;
  let deepest = 0;
  let isWithin = false;
  let isEscaped = false;
  let at = start;
  while (at < end && deepest <= mostDepth) {
    let letter = bytes[at] ?? 0;
    at += 1;
    if (letter === backslash) {
      letter = escaped(bytes, at);
      at += bytes[at] === 0x75 ? 5 : 1;
    }
    if (isEscaped) isEscaped = false;
    else if (isWithin) {
      if (letter === backslash) isEscaped = true;
      else if (letter === quote) isWithin = false;
    } else if (letter === openBrace || letter === openBracket) {
      depth += 1;
      deepest = Math.max(deepest, depth);
    } else if (letter === closeBrace || letter === closeBracket) depth -= 1;
    else if (letter === quote) isWithin = true;
    if (depth <= 0 && letter > space) break;
  }
  return { deepest, readBytes: at - start };
}

/** The character of the escape whose letter stands at `at`, as far as it matters to JSON; others are a space. */
function escaped(bytes: Buffer, at: number): number {
  const letter = bytes[at];
  if (letter === quote || letter === backslash) return letter;
  if (letter !== 0x75) return space;
  let code = 0;
  for (let index = 1; index <= 4; index += 1) {
    const digit = bytes[at + index] ?? 0;
    code = code * 16 + (digit <= 0x39 ? digit - 0x30 : (digit | 0x20) - 0x57);
  }
  return code;
}
