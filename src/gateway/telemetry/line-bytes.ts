const digit0 = 0x30;
const quote = 0x22;
const backslash = 0x5c;

/** The most bytes that a number takes as text. */
export const numberBytes = 25;
/** The most bytes that JSON makes of a UTF-16 unit: those of a control character, or of half a pair. */
export const escapedUnitBytes = 6;

/** Writes bytes into memory, which must have room for them, and returns where they end. */
export function putPart(memory: Buffer, at: number, part: Buffer): number {
  memory.set(part, at);
  return at + part.length;
}

/** Writes a number as text into memory, which must have room for `numberBytes`, and returns where it ends. */
export function putNumber(memory: Buffer, at: number, value: number): number {
  // Rare: a number that is large or negative, or has a fraction.
  if (value !== (value & 0x3fff_ffff)) return at + memory.write(String(value), at);
  let digits = 1;
  for (let limit = 10; value >= limit; limit *= 10) digits += 1;
  putDigits(memory, at, value, digits);
  return at + digits;
}

/** Writes the last digits of an integer from 0 to 2·10¹⁰, with zeros before it where it has fewer. */
export function putDigits(memory: Buffer, at: number, value: number, digits: number): void {
  let rest = value;
  for (let place = at + digits - 1; place >= at; place -= 1) {
    // By whole numbers alone, which take a fraction of the time.
    const tens = (rest / 10) | 0;
    memory[place] = digit0 + rest - tens * 10;
    rest = tens;
  }
}

/**
 * Writes a text as JSON has it between quotation marks into memory, which must have room for `escapedUnitBytes` for each of its
 * units, and returns where it ends.
 */
export function putText(memory: Buffer, at: number, text: string): number {
  for (let nth = 0; nth < text.length; nth += 1) {
    const unit = text.charCodeAt(nth);
    if (unit < 0x20 || unit > 0x7e || unit === quote || unit === backslash)
      return at + memory.write(JSON.stringify(text).slice(1, -1), at);
    memory[at + nth] = unit;
  }
  return at + text.length;
}
