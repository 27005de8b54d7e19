/** A longer text is not kept. */
const longestBytes = 64;
/** A power of two. */
const places = 64;

interface KnownText {
  readonly bytes: Uint8Array;
  readonly text: string;
}

/**
 * Texts by the bytes that spelled them before, since clients repeat a few names. The same string again spares its
 * decoding, and V8 the hash of a new string in every map. Bytes share places, and the last ones keep theirs: the memory
 * is bounded, and no lookup takes long.
 */
export class KnownTexts {
  readonly #texts: (KnownText | undefined)[] = Array.from({ length: places }, () => undefined);

  /** The text of the bytes from `start` to `end`; undefined: it is not known. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    const known = this.#texts[placeOf(bytes, start, end)];
    if (known === undefined || known.bytes.length !== end - start) return undefined;
    for (let at = start; at < end; at++) if (bytes[at] !== known.bytes[at - start]) return undefined;
    return known.text;
  }

  keep(bytes: Uint8Array, start: number, end: number, text: string): void {
    if (end - start > longestBytes) return;
    // A copy: `slice` of a Buffer is a view, which changes with it.
    this.#texts[placeOf(bytes, start, end)] = { bytes: new Uint8Array(bytes.subarray(start, end)), text };
  }
}

/** By the length and the middle: names of one family often begin and end alike. */
function placeOf(bytes: Uint8Array, start: number, end: number): number {
  return ((end - start) * 7 + (bytes[(start + end) >> 1] ?? 0)) & (places - 1);
}
