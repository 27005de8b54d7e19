import { ApiError } from "../../api/errors.ts";
import { parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";

const asterisk = 0x2a;
/** A shorter key may be a word like `none`, which also occurs without being a key. */
const shortestLength = 4;

/** Removes a provider's key from the provider's errors. A masked text keeps its length. */
export class Mask {
  readonly #forms: readonly Buffer[];

  constructor(secret: string | undefined, shortest = shortestLength) {
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
}

/** The same failure without the key. */
export function maskedFailure(
  { code, message, status, details, headers, type, familiar, engineText }: ApiError,
  mask: Mask,
): ApiError {
  const shown = isRecord(details) ? parseForeign(Buffer.from(mask.text(JSON.stringify(details)))) : undefined;
  const masked = new ApiError(code, {
    message: mask.text(message),
    status,
    headers,
    type,
    familiar,
    ...(isRecord(shown) && { details: shown }),
  });
  if (engineText !== undefined) masked.engineText = mask.text(engineText);
  return masked;
}

/** The key itself, and its forms in JSON and in an address. */
function spellings(secret: string): Buffer[] {
  const json = JSON.stringify(secret).slice(1, -1);
  const all = [secret, json, json.replaceAll("/", "\\/"), encodeURIComponent(secret)];
  return [...new Set(all)].map((text) => Buffer.from(text));
}
