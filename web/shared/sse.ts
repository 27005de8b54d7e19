/** One server-sent event. */
export interface ServerEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
  /** Comments before it, or alone: what a held stream says while it waits. */
  readonly comments: readonly string[];
}

/** A line that never ends must not fill the memory of the page. */
const longestLine = 16 * 1024 * 1024;

/**
 * Events of a stream as they come, WHATWG HTML 9.2. `EventSource` cannot send a token, and hides comments. Throws what
 * reading throws.
 */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  let rest = "";
  let fields: string[] = [];
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      if (rest.length > longestLine) throw new Error("a line of the stream is too long");
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line !== "") {
          fields.push(line);
          // Comments say what a stream waits for, and are not followed by an empty line for long.
          if (line.startsWith(":") && fields.every((each) => each.startsWith(":"))) {
            yield eventOf(fields);
            fields = [];
          }
          continue;
        }
        if (fields.length > 0) yield eventOf(fields);
        fields = [];
      }
      if (done) return;
    }
  } finally {
    // Ends the request of a reader who has left.
    await reader.cancel().catch(() => undefined);
  }
}

function eventOf(lines: readonly string[]): ServerEvent {
  const valuesOf = (name: string): string[] =>
    lines.filter((line) => line === name || line.startsWith(`${name}:`)).map((line) => afterColon(line));
  return {
    id: valuesOf("id").at(-1),
    event: valuesOf("event").at(-1) ?? "message",
    data: valuesOf("data").join("\n"),
    comments: lines.filter((line) => line.startsWith(":")).map((line) => afterColon(line)),
  };
}

function afterColon(line: string): string {
  const colon = line.indexOf(":");
  return colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
}
