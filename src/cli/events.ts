import type { EventSourceMessage } from "eventsource-parser";
import { notBerth } from "./client.ts";

/** Characters of an event that has not ended. */
const eventLimit = 16 * 1024 * 1024;

/**
 * Server-sent events as they come; `onComment` gets the comments, which report progress. Throws CommandError where an
 * event has no end.
 */
export async function* events(
  body: AsyncIterable<Uint8Array>,
  onComment: (text: string) => void = () => undefined,
): AsyncIterable<EventSourceMessage> {
  // Other commands start without it.
  const { createParser } = await import("eventsource-parser");
  let found: EventSourceMessage[] = [];
  const parser = createParser({
    maxBufferSize: eventLimit,
    onEvent: (event) => found.push(event),
    onComment,
    onError: ({ type }) => {
      if (type === "max-buffer-size-exceeded") throw notBerth("an event of the answer has no end");
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* found;
    found = [];
  }
}
