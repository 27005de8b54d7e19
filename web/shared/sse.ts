import { createParser } from "eventsource-parser";

/** One server-sent event, or a comment alone, whose data is empty: what a held stream says while it waits. */
export interface ServerEvent {
  readonly event: string;
  readonly data: string;
  readonly comments: readonly string[];
}

/** A line that never ends must not fill the memory of the page. */
const maxBufferSize = 16 * 1024 * 1024;

/**
 * Events of a stream as they come. `EventSource` cannot send a token, and hides comments. Throws what reading throws, and
 * where a line is too long.
 */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  let found: ServerEvent[] = [];
  const parser = createParser({
    maxBufferSize,
    onEvent: ({ event = "message", data }) => found.push({ event, data, comments: [] }),
    onComment: (comment) => found.push({ event: "message", data: "", comments: [comment] }),
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") throw error;
    },
  });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* found;
      found = [];
    }
  } finally {
    // Ends the request of a reader who has left.
    await reader.cancel().catch(() => undefined);
  }
}
