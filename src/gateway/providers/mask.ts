const asterisk = 0x2a;
/** A shorter key may be a word like `none`, which also occurs without being a key. */
const shortestInErrors = 4;
/** A model's own text is changed only where it can be nothing but a secret. */
const shortestInAnswers = 16;

/** Removes a provider's key from the provider's answers. A masked text keeps its length. */
export class Mask {
  readonly #forms: readonly Buffer[];

  constructor(secret: string | undefined, where: "errors" | "answers") {
    const shortest = where === "errors" ? shortestInErrors : shortestInAnswers;
    this.#forms = secret === undefined || secret.length < shortest ? [] : spellings(secret);
  }

  text(text: string): string {
    return this.bytes(Buffer.from(text)).toString();
  }

  /** The same buffer when there is nothing to mask; it is never written to. */
  bytes(bytes: Buffer): Buffer {
    let masked: Buffer | undefined;
    for (const form of this.#forms) {
      for (let at = bytes.indexOf(form); at >= 0; at = bytes.indexOf(form, at + 1)) {
        masked ??= Buffer.from(bytes);
        masked.fill(asterisk, at, at + form.length);
      }
    }
    return masked ?? bytes;
  }

  /** Length of the longest end of `bytes` that a secret may begin with. */
  unsettled(bytes: Buffer): number {
    let longest = 0;
    for (const form of this.#forms) {
      for (let length = Math.min(form.length - 1, bytes.length); length > longest; length--) {
        if (bytes.compare(form, 0, length, bytes.length - length) === 0) longest = length;
      }
    }
    return longest;
  }
}

/** The same for bytes in pieces. Holds back only an end that the secret may begin with. */
export class StreamMask {
  readonly #mask: Mask;
  #held: Buffer | undefined;

  constructor(mask: Mask) {
    this.#mask = mask;
  }

  push(chunk: Buffer): Buffer {
    const bytes = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    const masked = this.#mask.bytes(bytes);
    const length = this.#mask.unsettled(masked);
    this.#held = length === 0 ? undefined : masked.subarray(masked.length - length);
    return length === 0 ? masked : masked.subarray(0, masked.length - length);
  }

  end(): Buffer | undefined {
    const held = this.#held;
    this.#held = undefined;
    return held;
  }
}

/** The key itself, and its forms in JSON and in an address. */
function spellings(secret: string): Buffer[] {
  const json = JSON.stringify(secret).slice(1, -1);
  const all = [secret, json, json.replaceAll("/", "\\/"), encodeURIComponent(secret)];
  return [...new Set(all)].map((text) => Buffer.from(text));
}
