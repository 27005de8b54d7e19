import assert from "node:assert/strict";
import { it } from "node:test";
import { events } from "../../../web/shared/sse.ts";

/** The events of a stream that comes in pieces of so many bytes. */
async function eventsOf(text: string, size = Infinity): Promise<unknown[]> {
  const bytes = new TextEncoder().encode(text);
  const pieces: Uint8Array[] = [];
  for (let from = 0; from < bytes.length; from += size) pieces.push(bytes.slice(from, from + size));
  return await Array.fromAsync(events(ReadableStream.from(pieces)));
}

const event = { event: "message", data: "", comments: [] };

it("a comment is told at once, before the event within which it stands", async () => {
  assert.deepEqual(await eventsOf(": waits\n"), [{ ...event, comments: ["waits"] }]);
  assert.deepEqual(await eventsOf("event: slot\n: busy\ndata: 1\n\n"), [
    { ...event, comments: ["busy"] },
    { ...event, event: "slot", data: "1" },
  ]);
});

it("an event is the same however its bytes come, and whichever ends its lines have", async () => {
  const whole = [{ ...event, data: "one\nzwölf" }];
  const text = "id: 7\r\ndata: one\r\ndata: zwölf\r\n\r\n";
  assert.deepEqual(await eventsOf(text), whole);
  assert.deepEqual(await eventsOf(text, 1), whole);
});
