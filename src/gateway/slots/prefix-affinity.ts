import { crc32 } from "node:zlib";
import { stringEnd } from "../../lib/json-bytes.ts";

/** The limit of remembered conversations; the one with the oldest request is forgotten first. */
const mostPrompts = 4096;

/**
 * The backend that has seen a prompt last, so that the next turn of a conversation reaches the engine that still has
 * the earlier ones in its cache. Only whole prompts are remembered, never their beginnings: many conversations may
 * share one system prompt, which must not send all of them to one engine.
 */
export class PrefixAffinity<Backend> {
  readonly #backends = new Map<number, Backend>();
  readonly #limit: number;

  constructor(limit = mostPrompts) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#backends.size;
  }

  /** The backend that has seen the longest of these prefixes as a whole prompt. `hashes` come from `prefixHashes`. */
  find(hashes: readonly number[]): Backend | undefined {
    for (let index = hashes.length - 1; index >= 0; index -= 1) {
      const backend = this.#backends.get(hashes[index] ?? 0);
      if (backend !== undefined) return backend;
    }
    return undefined;
  }

  /** The backend gets the whole of that prompt now. */
  note(hashes: readonly number[], backend: Backend): void {
    const whole = hashes.at(-1);
    if (whole === undefined) return;
    this.#backends.delete(whole);
    this.#backends.set(whole, backend);
    if (this.#backends.size <= this.#limit) return;
    const [oldest] = this.#backends.keys();
    if (oldest !== undefined) this.#backends.delete(oldest);
  }

  /** The backend is gone, and its cache with it. */
  forget(backend: Backend): void {
    for (const [hash, known] of this.#backends) if (known === backend) this.#backends.delete(hash);
  }
}

/** The conversation or the text that an engine should continue, as bytes of a JSON body. */
export interface Prompt {
  readonly body: Buffer;
  /** The start of the value of `messages`, `prompt` or `input`: a list, or a string. */
  readonly start: number;
}

/** A turn adds a few messages; with the results of an agent's tools some dozens. */
const mostMessages = 64;
const smallestStep = 64;

const quote = 0x22;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/**
 * Hashes of growing prefixes of a prompt, from the shortest to the longest. The last of them stands for the whole
 * prompt, and is among the hashes of every prompt that continues it: a later turn of the same conversation repeats all
 * earlier messages, byte for byte. Each hash continues the one before it, so that every byte is hashed once.
 */
export function prefixHashes({ body, start }: Prompt): readonly number[] {
  const hashes: number[] = [];
  let hash = 0;
  let from = start;
  for (const to of prefixEnds(body, start)) {
    hash = crc32(body.subarray(from, to), hash);
    hashes.push(hash);
    from = to;
  }
  return hashes;
}

function prefixEnds(body: Buffer, start: number): readonly number[] {
  if (body[start] === openBracket) return messageEnds(body, start);
  return body[start] === quote ? textEnds(start + 1, stringEnd(body, start) - 1) : [];
}

/** Where the last messages of a list end. The body was scanned: each list and each string in the list has an end. */
function messageEnds(body: Buffer, start: number): readonly number[] {
  const ends: number[] = [];
  let depth = 0;
  for (let at = start; at < body.length; at += 1) {
    const byte = body[at];
    if (byte === openBrace || byte === openBracket) depth += 1;
    else if (byte === closeBrace || byte === closeBracket) depth -= 1;
    else if (byte === quote) at = stringEnd(body, at) - 1;
    else continue;
    if (depth === 0) break;
    if (depth === 1 && at > start) ends.push(at + 1);
  }
  return ends.slice(-mostMessages);
}

/** Prefixes of a text end at fixed places, a sixteenth of their length apart: a megabyte has fewer than three hundred. */
function textEnds(start: number, end: number): readonly number[] {
  const ends: number[] = [];
  let at = start + smallestStep;
  while (at <= end) {
    ends.push(at);
    at += Math.max(smallestStep, 2 ** Math.floor(Math.log2(at - start)) / 16);
  }
  return ends;
}
