declare global {
  /** Of ECMAScript 2026: Node 24 has them, TypeScript's own types do not. */
  interface JSON {
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
    ): unknown;
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
  }
}

/** The JSON value of a text; undefined for invalid JSON, since no JSON value is undefined. */
export function parseJson(text: string | Buffer): unknown {
  try {
    return JSON.parse(text.toString());
  } catch {
    return undefined;
  }
}

/**
 * The same for a value that is serialised again: a number within it that a double cannot hold (a whole number beyond
 * 2^53, or 1e400) is an object that `JSON.stringify` writes as the text has it. Only `JSON.rawJSON` makes such objects, so
 * that no text can pretend to be one. Throws RangeError for such a text that is nested too deeply.
 */
export function parseExactJson(text: string | Buffer): unknown {
  const json = text.toString();
  if (!mayLoseNumbers(json)) return parseJson(json);
  try {
    const value = JSON.parse(json, exactNumber);
    return JSON.isRawJSON(value) ? Number(json) : value;
  } catch (error) {
    if (error instanceof RangeError) throw error;
    return undefined;
  }
}

/** Finds little in most texts, but much in pictures as base64. */
const longNumber = /\d(?:\d{15}|[eE][+\d])/;
/** Slower, and only for a number that may stand by itself. */
const longValue = /[\s:,[]-?\d(?:\d{15}|[\d.]*[eE][+\d])/;

/** Whether a JSON text may have a number that a double cannot hold. Parsing its numbers as texts would cost far more. */
export function mayLoseNumbers(json: string): boolean {
  return longNumber.test(json) && longValue.test(json);
}

function exactNumber(_key: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== "number" || source === undefined || Number.isSafeInteger(value)) return value;
  return Number.isInteger(value) || !Number.isFinite(value) ? JSON.rawJSON(source) : value;
}
