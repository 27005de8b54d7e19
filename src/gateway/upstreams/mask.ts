const asterisk = 0x2a;
/** A shorter key is a word like `none`, and would be found where nobody echoes it. */
const shortestInErrors = 4;
/** What a model says is only touched for what can be nothing but a secret. */
const shortestInAnswers = 16;

/** Takes a provider's key out of what the provider says. A masked text is as long as it was. */
export class Mask {
  readonly #forms: readonly Buffer[];

  constructor(secret: string | undefined, where: "errors" | "answers") {
    const shortest = where === "errors" ? shortestInErrors : shortestInAnswers;
    this.#forms = secret === undefined || secret.length < shortest ? [] : spellings(secret);
  }

  text(text: string): string {
    return this.bytes(Buffer.from(text)).toString();
  }

  /** The same buffer when there is nothing to hide; it is never written to. */
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

  /** Length of the longest end of `bytes` with which a secret may begin. */
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

/** The same for bytes that come in pieces. Holds back only an end with which the secret may begin. */
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

/** As it is, and as it stands in JSON and in an address. */
function spellings(secret: string): Buffer[] {
  const json = JSON.stringify(secret).slice(1, -1);
  const all = [secret, json, json.replaceAll("/", "\\/"), encodeURIComponent(secret)];
  return [...new Set(all)].map((text) => Buffer.from(text));
}
