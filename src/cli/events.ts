import type { EventSourceMessage } from "eventsource-parser";
import { notBerth } from "./client.ts";

/** Bytes without the end of an event or comment. */
const eventLimitBytes = 16 * 1024 * 1024;

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
  let unendedBytes = 0;
  const parser = createParser({
    onEvent: (event) => {
      unendedBytes = 0;
      found.push(event);
    },
    onComment: (text) => {
      unendedBytes = 0;
      onComment(text);
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    unendedBytes += chunk.length;
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (unendedBytes > eventLimitBytes) throw notBerth("an event of the answer has no end");
    yield* found;
    found = [];
  }
}
