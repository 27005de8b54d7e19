const newline = 0x0a;
/** A longer line is cut: logs are for people, and memory is bounded. */
export const lineBytes = 65_536;

/** Cuts a stream of bytes into lines. Characters split between two chunks stay whole. */
export class LineCutter {
  #rest: Buffer;

  /** `rest`: the beginning of a line whose end follows. */
  constructor(rest: Buffer = Buffer.alloc(0)) {
    this.#rest = rest.subarray(0, lineBytes);
  }

  /** The lines that `chunk` completes. */
  push(chunk: Buffer): string[] {
    const lines: string[] = [];
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(newline, from);
      if (end < 0) break;
      lines.push(lineOf(this.#with(chunk.subarray(from, end))));
      this.#rest = Buffer.alloc(0);
      from = end + 1;
    }
    this.#rest = this.#with(chunk.subarray(from));
    return lines;
  }

  /** The line that has not ended; "" when there is none. */
  flush(): string {
    const line = lineOf(this.#rest);
    this.#rest = Buffer.alloc(0);
    return line;
  }

  #with(bytes: Buffer): Buffer {
    // A copy in any case: a view would keep the whole chunk.
    return Buffer.concat([this.#rest, bytes.subarray(0, lineBytes - this.#rest.length)]);
  }
}

/** A line as text, without its end; a very long one is cut. */
export function lineOf(bytes: Buffer): string {
  const end = bytes.at(-1) === 0x0d ? bytes.length - 1 : bytes.length;
  return bytes.toString("utf8", 0, Math.min(end, lineBytes));
}

/** The last `count` complete lines of `bytes`, oldest first, and the text after the last newline. */
export function lastLinesOf(bytes: Buffer, count: number): { readonly lines: string[]; readonly rest: Buffer } {
  const lines: string[] = [];
  let end = bytes.lastIndexOf(newline);
  const rest = bytes.subarray(end + 1);
  while (end >= 0 && lines.length < count) {
    const before = end === 0 ? -1 : bytes.lastIndexOf(newline, end - 1);
    lines.push(lineOf(bytes.subarray(before + 1, end)));
    end = before;
  }
  return { lines: lines.toReversed(), rest };
}
