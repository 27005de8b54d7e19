/** One message of a container's output: a line, or a part of one beyond Docker's limit. */
export interface Message {
  readonly stream: "stdout" | "stderr";
  /** RFC 3339 with nanoseconds. */
  readonly stamp: string;
  readonly text: Buffer;
  readonly isWhole: boolean;
}

const headerBytes = 8;
/** A larger frame is invalid: Docker's messages end at 16 KiB. */
const frameLimit = 1024 * 1024;

/**
 * Parses the multiplexed stream of `GET /containers/{id}/logs?timestamps=1`: frames of a stream's number, three zero
 * bytes, a big-endian length and one message (https://docs.docker.com/reference/api/engine/ "Stream format" of
 * ContainerAttach).
 */
export class FrameCutter {
  #rest: Buffer = Buffer.alloc(0);

  /** The messages that `chunk` completes. Throws for an invalid frame. */
  push(chunk: Buffer): Message[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const messages: Message[] = [];
    let at = 0;
    while (bytes.length - at >= headerBytes) {
      const length = bytes.readUInt32BE(at + 4);
      if (length > frameLimit) throw new Error(`a log frame of ${length} bytes`);
      const end = at + headerBytes + length;
      if (end > bytes.length) break;
      const message = messageOf(bytes[at] === 2 ? "stderr" : "stdout", bytes.subarray(at + headerBytes, end));
      if (message !== undefined) messages.push(message);
      at = end;
    }
    this.#rest = Buffer.from(bytes.subarray(at));
    return messages;
  }
}

function messageOf(stream: Message["stream"], payload: Buffer): Message | undefined {
  const space = payload.indexOf(0x20);
  if (space < 0) return undefined;
  const stamp = payload.toString("latin1", 0, space);
  const isWhole = payload.at(-1) === 0x0a;
  return { stream, stamp, text: Buffer.from(payload.subarray(space + 1, isWhole ? -1 : undefined)), isWhole };
}

/** Nanoseconds since the epoch, to compare stamps of any zone and length. */
export function nanoseconds(stamp: string): bigint {
  const [, seconds = "", fraction = "", zone = "Z"] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(stamp) ?? [];
  const ms = Date.parse(`${seconds}${zone}`);
  if (Number.isNaN(ms)) return 0n;
  return BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}
