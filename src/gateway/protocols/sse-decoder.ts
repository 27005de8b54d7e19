import { StreamGarbage } from "../relay/event-stream.ts";

/** What an event stream consists of, apart from fields that nobody here needs. */
export type SseItem = { readonly kind: "data"; readonly data: string } | { readonly kind: "comment" };

const eventLimitBytes = 4 * 1024 * 1024;

/** Reads Server-Sent Events from bytes that may be split anywhere (HTML standard, "Parsing an event stream"). */
export class SseDecoder {
  #rest: Buffer | undefined;
  #data: string[] = [];
  #size = 0;

  /** Throws StreamGarbage when an event has no end. */
  push(chunk: Buffer): readonly SseItem[] {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    const items: SseItem[] = [];
    let start = 0;
    for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a, start)) {
      const hasReturn = end > start && bytes[end - 1] === 0x0d;
      this.#line(bytes.toString("utf8", start, hasReturn ? end - 1 : end), items);
      start = end + 1;
    }
    this.#rest = start === bytes.length ? undefined : bytes.subarray(start);
    if (this.#size + (this.#rest?.length ?? 0) > eventLimitBytes) throw new StreamGarbage("an event has no end");
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
