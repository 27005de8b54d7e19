import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EventStream, StreamGarbage } from "../../../src/gateway/relay/event-stream.ts";
import { ModelRename } from "../../../src/gateway/relay/rename.ts";
import { fc } from "../../support/fast-check.ts";

interface Relayed {
  readonly text: string;
  readonly error: string | undefined;
  readonly isWhole: boolean;
}

function relay(
  pieces: readonly Buffer[],
  { isChat = false, endMark }: { isChat?: boolean; endMark?: RegExp } = {},
): Relayed {
  const stream = new EventStream({ rename: new ModelRename("engine", "asked"), isChat, endMark });
  const sent: Buffer[] = [];
  for (const piece of pieces) {
    const bytes = stream.push(piece);
    if (bytes !== undefined) sent.push(bytes);
  }
  const last = stream.end();
  if (last !== undefined) sent.push(last);
  return { text: Buffer.concat(sent).toString(), error: stream.error, isWhole: stream.isWhole };
}

const whole = (text: string, options = {}): Relayed => relay([Buffer.from(text)], options);

function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  const edges = [0, ...at, bytes.length];
  return edges.slice(1).map((end, index) => bytes.subarray(edges[index], end));
}

const unit = fc.constantFrom("a", " ", "\n", '"', "\\", "ä", "e\u0301", "\u2028", "😀", "👩‍🚀");
const content = fc.oneof(
  fc.string({ unit }),
  fc.constantFrom(
    '"model":"engine"',
    '"error":{}',
    "data: [DONE]\n\n",
    '"finish_reason":"stop"',
    "\\",
    '{"error":"x"}',
  ),
);
interface Event {
  readonly text: string;
  /** The same as a client gets it. */
  readonly relayed: string;
}
const chunk = (model: string, delta: object, finish: string | null, lineEnd: string): string =>
  `data: ${JSON.stringify({ id: "1", model, choices: [{ index: 0, delta, finish_reason: finish }] })}${lineEnd}${lineEnd}`;
const both = (delta: object, finish: string | null = null, end = "\n"): Event => ({
  text: chunk("engine", delta, finish, end),
  relayed: chunk("asked", delta, finish, end),
});
const same = (text: string): Event => ({ text, relayed: text });
const event: fc.Arbitrary<Event> = fc.oneof(
  fc.tuple(content, fc.constantFrom("\n", "\r\n")).map(([text, end]) => both({ content: text }, null, end)),
  fc.constantFrom(": ping\n\n", "event: x\n", "id: 7\n", "retry: 10\n\n", "\n").map(same),
);
const join = (events: readonly Event[]): Event => ({
  text: events.map(({ text }) => text).join(""),
  relayed: events.map(({ relayed }) => relayed).join(""),
});
const finish = both({}, "stop");
const ending = join([finish, same("data: [DONE]\n\n")]);
const first = both({ role: "assistant", content: "" });
const stream = fc.array(event, { maxLength: 12, size: "max" }).map((events) => join([first, ...events, ending]));
const cuts = fc.array(fc.nat(), { maxLength: 20, size: "max" });

describe("EventStream", () => {
  it("relays a stream byte for byte apart from the model's name, however it is split", () => {
    fc.assert(
      fc.property(stream, cuts, fc.boolean(), ({ text, relayed }, at, isChat) => {
        const got = relay(split(Buffer.from(text), at), { isChat });
        assert.deepEqual(got, { text: relayed, error: undefined, isWhole: true });
      }),
    );
  });

  it("puts the role first where a chat's engine did not, once, however it is split", () => {
    fc.assert(
      fc.property(content, cuts, (text, at) => {
        const said = both({ content: text });
        const sent = join([same(": hello\n\n"), said, ending]);
        const role = chunk("asked", { role: "assistant", content: "" }, null, "\n");
        const got = relay(split(Buffer.from(sent.text), at), { isChat: true }).text;
        // A comment, or the blank line behind it, that comes in one piece with the first chunk stands behind the role.
        const order = (of: string): string[] => of.split("\n").toSorted();
        assert.deepEqual(order(got), order(role + sent.relayed));
        assert.ok(got.indexOf('"role"') < got.lastIndexOf(`"content":${JSON.stringify(text)}`));
      }),
    );
  });

  it("puts the role first also before text with line ends that do not end a line of an event stream", () => {
    const { text } = whole(chunk("engine", { content: "a\u2028b\u2029c" }, null, "\n"), { isChat: true });
    assert.match(text, /^data: [^\n]*"role":"assistant"[^\n]*\n\ndata: [^\n]*a\u2028b\u2029c/);
  });

  it("is whole only with its final event, and not where an event was cut off", () => {
    fc.assert(
      fc.property(stream, fc.nat(), ({ text }, cut) => {
        const part = text.slice(0, cut % text.length);
        const hasEnd = part.includes('"finish_reason":"stop"}]}');
        // A line that lacks its end alone lacks nothing.
        const isCut = !/(\n|"finish_reason":"stop"\}\]\}|\[DONE\])$/.test(part);
        assert.equal(relay([Buffer.from(part)]).isWhole, hasEnd && !isCut);
      }),
    );
    assert.equal(whole(`${ending.text}data: {"ha`).isWhole, false);
    assert.equal(whole('event: x\ndata: {"type":"message_stop"}\n\n', { endMark: /"message_stop"/ }).isWhole, true);
    assert.equal(whole(ending.text, { endMark: /"message_stop"/ }).isWhole, false);
  });

  it("ends a last line that its engine did not end, and no line that was cut off", () => {
    for (const [text, got, isWhole] of [
      [`${finish.text}data: [DONE]`, `${finish.relayed}data: [DONE]\n\n`, true],
      [`${finish.text}data:[DONE]\r`, `${finish.relayed}data:[DONE]\r\n\n`, true],
      [finish.text.trimEnd(), finish.relayed, true],
      [`${finish.text}data: [DON`, finish.relayed, false],
      [`${finish.text}data: {"choices":[]`, finish.relayed, false],
      [`${finish.text}data: 12`, finish.relayed, false],
      [`${finish.text}: ping`, finish.relayed, false],
    ] as const)
      assert.deepEqual(whole(text), { text: got, error: undefined, isWhole }, text);
    const error = '{"error":{"code":500}}';
    assert.deepEqual(whole(`${finish.text}data: ${error}`), { text: finish.relayed, error, isWhole: true });
  });

  it("withholds an engine's error and what follows it, and relays all events before it", () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 6 }), cuts, content, (events, at, message) => {
        const before = join([first, ...events]);
        const error = JSON.stringify({ error: { code: 500, message } });
        const text = `${before.text}\ndata: ${error}\n\n${ending.text}`;
        const got = relay(split(Buffer.from(text), at));
        assert.deepEqual(got, { text: `${before.relayed}\n`, error, isWhole: false });
      }),
    );
  });

  it("relays an event whose error is null", () => {
    const text = `data: {"error": null,"choices":[]}\n\ndata: {"error" : null}\n\n${ending.text}`;
    assert.deepEqual(whole(text), { text: text.replaceAll("engine", "asked"), error: undefined, isWhole: true });
    const error = '{"error":{"a":null}}';
    assert.equal(whole(`data: {"error":null}\n\ndata: ${error}\n\n`).error, error);
  });

  it("drops a byte order mark before the first line, however it is split", () => {
    const bytes = Buffer.from(`\ufeff${join([first, ending]).text}`);
    const relayed = join([first, ending]).relayed;
    for (const cuts of [[], [1], [2], [3, 4], [20]])
      assert.deepEqual(relay(split(bytes, cuts)), { text: relayed, error: undefined, isWhole: true });
    assert.throws(() => whole("\ufeff<html>\n"), StreamGarbage);
  });

  it("takes bytes that are no event stream for garbage, and throws nothing else", () => {
    for (const text of ["<html>\n", '{"choices":[]}\n', "hello\n", "\u0000\n"])
      assert.throws(() => whole(text), StreamGarbage, text);
    assert.throws(() => whole("data: {nonsense}\n\n", { isChat: true }), StreamGarbage);
    assert.throws(() => whole(`data: ${"x".repeat(5_000_000)}`), StreamGarbage);
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 6 }), fc.boolean(), (pieces, isChat) => {
        try {
          relay([Buffer.from("data: "), ...pieces.map((piece) => Buffer.from(piece)), Buffer.from("\n")], { isChat });
        } catch (error) {
          assert.ok(error instanceof StreamGarbage, String(error));
        }
      }),
    );
  });
});

describe("ModelRename", () => {
  const rename = (served = "engine"): ModelRename => new ModelRename(served, "my/model:1");

  it("replaces the engine's name, known or learnt, at the top level of an answer", () => {
    for (const served of ["engine", "/models/file.gguf", 'strange "name" \\ é'])
      for (const known of [served, "something else"]) {
        const body = `{"id":"1", "model" : ${JSON.stringify(served)} ,"usage":{}}`;
        const got = rename(known).whole(Buffer.from(body)).toString();
        assert.equal(got, '{"id":"1", "model" : "my/model:1" ,"usage":{}}');
      }
  });

  for (const body of [
    '{"choices":[{"text":"\\"model\\":\\"engine\\""}]}',
    '{"choices":["{\\"model\\":\\"engine\\"}"]}',
    '{"modell":"engine"}',
    '{"model":"my/model:1"}',
  ])
    it(`gives the same buffer where nothing is to be renamed: ${body}`, () => {
      const bytes = Buffer.from(body);
      assert.equal(rename().whole(bytes), bytes);
    });

  it("learns the name from the first line of a stream that has one, and uses it from then on", () => {
    const names = rename("x");
    for (const line of [': a\n\ndata: {"model":"served"}\n\n', 'data: {"a":1,"model":"served"}\n'])
      assert.equal(names.lines(Buffer.from(line)).toString(), line.replace("served", "my/model:1"));
  });

  for (const within of ["message", "response"])
    it(`learns it too where the event has its answer in ${within}: an engine's name may be a path`, () => {
      const event = (model: string): string => `data: ${JSON.stringify({ type: "x", [within]: { id: "1", model } })}\n`;
      const sent = Buffer.from(event("/models/file.gguf"));
      assert.equal(rename().lines(sent).toString(), event("my/model:1"));
    });
});
