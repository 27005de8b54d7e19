const quote = 0x22;
const backslash = 0x5c;
/** Within this distance a loop is faster than a call into native code. */
const nearBytes = 48;

/** The bytes that a reader may still look at one by one. */
interface ByteBudget {
  left: number;
}

/** The cost of an escaped quote, for each of which native code is called. */
const escapedQuoteCost = 12;

const byteOrderMark = Buffer.from("\uFEFF");

/** The bytes behind a byte order mark, if they begin with one. */
export function withoutMark(bytes: Buffer): Buffer {
  return bytes[0] === 0xef && bytes.subarray(0, 3).equals(byteOrderMark) ? bytes.subarray(3) : bytes;
}

/** Whether the byte is white space of JSON. */
export function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/**
 * The offset after the closing quote of the string that begins at `from`; -1 without a closing quote, or once `budget` is
 * used up. Text costs nothing of the budget, escaped quotes and the backslashes before quotes do.
 */
export function stringEnd(bytes: Buffer, from: number, budget?: ByteBudget): number {
  const near = Math.min(bytes.length, from + nearBytes);
  let at = from + 1;
  while (at < near && bytes[at] !== backslash) {
    if (bytes[at] === quote) return at + 1;
    at += 1;
  }
  for (;;) {
    at = bytes.indexOf(quote, at);
    if (at < 0) return -1;
    let slashes = 0;
    while (bytes[at - 1 - slashes] === backslash && at - 1 - slashes > from) slashes += 1;
    at += 1;
    if (slashes % 2 === 0) return at;
    if (budget === undefined) continue;
    budget.left -= slashes + escapedQuoteCost;
    if (budget.left < 0) return -1;
  }
}

/** Whether the string between these offsets has no escape; of a short one also, whether it has ASCII alone. */
export function isPlain(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > nearBytes) return !bytes.subarray(start, end).includes(backslash);
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === backslash || byte >= 0x80) return false;
  }
  return true;
}
