import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SseDecoder } from "../../../src/gateway/protocols/sse-decoder.ts";
import { EventStream, StreamGarbage } from "../../../src/gateway/relay/event-stream.ts";
import { ModelRename } from "../../../src/gateway/relay/rename.ts";

const start = Buffer.from(`data: {"text":"${"x".repeat(3_500_000)}`);
const drops = 100_000;

/** Seconds of processor time: other programs do not count. */
function cpuSeconds(act: () => void): number {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

const newStream = (): EventStream => new EventStream({ rename: new ModelRename("engine", "asked"), isChat: false });

describe("an event of which one byte comes at a time", () => {
  it("takes time linear in its bytes, not quadratic", () => {
    const stream = newStream();
    const seconds = cpuSeconds(() => {
      stream.push(start);
      for (let index = 0; index < drops; index += 1) assert.equal(stream.push(Buffer.from("y")), undefined);
    });
    assert.ok(seconds < 5, `${seconds} s`);
    const sent = stream.push(Buffer.from('"}\n\n'));
    assert.equal(sent?.length, start.length + drops + 4);
  });

  it("costs no more where the event is translated", () => {
    const decoder = new SseDecoder();
    const seconds = cpuSeconds(() => {
      decoder.push(start);
      for (let index = 0; index < drops; index += 1) assert.deepEqual(decoder.push(Buffer.from("y")), []);
    });
    assert.ok(seconds < 5, `${seconds} s`);
    const [item, ...others] = decoder.push(Buffer.from('"}\r\n\n: next\n'));
    assert.ok(item?.kind === "data" && item.data.length === start.length - 6 + drops + 2);
    assert.deepEqual(others, [{ kind: "comment" }]);
  });

  it("ends the stream once it is larger than any event", () => {
    const stream = newStream();
    stream.push(start);
    assert.throws(() => {
      for (;;) stream.push(Buffer.alloc(1000, 0x78));
    }, StreamGarbage);
  });
});
