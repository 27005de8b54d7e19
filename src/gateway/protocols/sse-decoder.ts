import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { StreamGarbage } from "../relay/event-stream.ts";

/** The items of an event stream, apart from unused fields. */
export type SseItem = { readonly kind: "data"; readonly data: string } | { readonly kind: "comment" };

const eventLimitBytes = 4 * 1024 * 1024;

/** Reads Server-Sent Events from bytes that may be split anywhere (HTML standard, "Parsing an event stream"). */
export class SseDecoder {
  readonly #rest = new GatheredBytes();
  #data: string[] = [];
  #size = 0;

  /** Throws StreamGarbage when an event has no end. */
  push(chunk: Buffer): readonly SseItem[] {
    const items: SseItem[] = [];
    let bytes = chunk;
    let start = 0;
    const first = chunk.indexOf(0x0a) + 1;
    if (first > 0 && this.#rest.size > 0) {
      this.#rest.add(chunk.subarray(0, first));
      const line = this.#rest.take();
      const hasReturn = line[line.length - 2] === 0x0d;
      this.#line(line.toString("utf8", 0, line.length - (hasReturn ? 2 : 1)), items);
      bytes = chunk.subarray(first);
    }
    for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a, start)) {
      const hasReturn = end > start && bytes[end - 1] === 0x0d;
      this.#line(bytes.toString("utf8", start, hasReturn ? end - 1 : end), items);
      start = end + 1;
    }
    if (start < bytes.length) this.#rest.add(bytes.subarray(start));
    if (this.#size + this.#rest.size > eventLimitBytes) throw new StreamGarbage("an event has no end");
    return items;
  }

  #line(line: string, items: SseItem[]): void {
    if (line === "") {
      if (this.#data.length > 0) items.push({ kind: "data", data: this.#data.join("\n") });
      this.#data = [];
      this.#size = 0;
    } else if (line.startsWith(":")) items.push({ kind: "comment" });
    else if (line.startsWith("data:")) {
      this.#data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
      this.#size += line.length;
    }
  }
}
