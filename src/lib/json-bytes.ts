const quote = 0x22;
const backslash = 0x5c;
/** Within this distance a loop is faster than a call into native code. */
const nearBytes = 48;

/** The offset of the first byte at or after `from` that is not white space of JSON. */
export function skipBlank(bytes: Buffer, from: number): number {
  let at = from;
  for (;;) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
    at += 1;
  }
}

/** The offset after the closing quote of the string that begins at `from`; -1 without a closing quote. */
export function stringEnd(bytes: Buffer, from: number): number {
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
  }
}

/** Whether the string between these offsets, quotes included, has an escape. */
export function hasEscape(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > nearBytes) return bytes.subarray(start, end).includes(backslash);
  for (let at = start; at < end; at++) if (bytes[at] === backslash) return true;
  return false;
}
