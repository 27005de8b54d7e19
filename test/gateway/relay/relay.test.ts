import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { BufferBudget } from "../../../src/gateway/admission/budget.ts";
import type { AnswerFormat, AnswerTranslation } from "../../../src/gateway/relay/answer-format.ts";
import type { RelayOptions, Sender } from "../../../src/gateway/relay/relay-options.ts";
import { Relay } from "../../../src/gateway/relay/relay.ts";
import { ModelRename } from "../../../src/gateway/relay/rename.ts";
import { ExchangeError } from "../../../src/lib/exchange.ts";
import { RecorderSink } from "./recorder.ts";
import { fc } from "../../support/fast-check.ts";

interface Site {
  readonly relay: Relay;
  readonly sink: RecorderSink;
  /** What the exchange was told, and what the relay told of itself. */
  readonly log: string[];
  readonly head: (type: string | undefined, status?: number, length?: string) => void;
  readonly data: (text: string) => void;
}

function site(options: AnswerFormat & Partial<RelayOptions & Sender> = {}, room = Infinity): Site {
  const sink = new RecorderSink(room);
  const log: string[] = [];
  const { isChat, endMark, translation, onFailed = () => false } = options;
  const relay = new Relay({
    sender: {
      onFirstByte: () => void log.push("first"),
      onByte: () => undefined,
      onTokens: () => undefined,
      onBodyDone: () => undefined,
      onFailed,
      onSettled: () => void log.push("settled"),
    },
    sink,
    rename: new ModelRename("engine", "asked"),
    format: {
      ...(isChat === undefined ? {} : { isChat }),
      ...(endMark === undefined ? {} : { endMark }),
      ...(translation === undefined ? {} : { translation }),
    },
    body: options.body ?? Buffer.from("{}"),
    isStream: options.isStream ?? false,
    budget: options.budget ?? new BufferBudget(1e9),
  });
  relay.start({
    pause: () => void log.push("pause"),
    resume: () => void log.push("resume"),
    abort: () => void log.push("abort"),
  });
  return {
    relay,
    sink,
    log,
    head(contentType, status = 200, contentLength?: string) {
      relay.onHead({ status, contentType, contentLength, isKeptAlive: true });
    },
    data: (text) => relay.onData(Buffer.from(text)),
  };
}

const broken = new ExchangeError("broken", "the connection closed");
const done = 'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

describe("Relay of JSON", () => {
  it("sends a whole answer to a stream's request as its events, held or not", () => {
    const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
    const message = { role: "assistant", content: "hi", tool_calls: [call] };
    const answer = {
      id: "1",
      object: "chat.completion",
      model: "engine",
      choices: [{ index: 0, message, finish_reason: "tool_calls" }],
      usage: { prompt_tokens: 1, completion_tokens: 2 },
    };
    for (const isHeld of [false, true]) {
      const { relay, sink, head, data } = site({ isStream: true, isChat: true });
      sink.isHeld = isHeld;
      head("application/json");
      data(JSON.stringify(answer));
      relay.onEnd();
      assert.equal(sink.headers?.["content-type"], "text/event-stream");
      assert.deepEqual(sink.calls.at(-1), "end");
      const events = sink.text.split("\n\n").filter((event) => event !== "");
      assert.equal(events.pop(), "data: [DONE]");
      const head3 = { id: "1", model: "asked", object: "chat.completion.chunk" };
      const chunk = (delta: object, finish_reason: string | null): object => ({
        ...head3,
        choices: [{ index: 0, delta, finish_reason }],
      });
      assert.deepEqual(
        events.map((event): unknown => JSON.parse(event.slice("data: ".length))),
        [
          chunk({ role: "assistant", content: "" }, null),
          chunk({ content: "hi", tool_calls: [{ index: 0, ...call }] }, null),
          { ...chunk({}, "tool_calls"), usage: answer.usage },
        ],
      );
    }
    const { relay, sink, head, data } = site({ isStream: true });
    head("application/json");
    data('{"object":"text_completion","model":"engine","choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}');
    relay.onEnd();
    const choices = '"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]';
    assert.equal(sink.text, `data: {"model":"asked","object":"text_completion",${choices}}\n\ndata: [DONE]\n\n`);
  });

  it("takes an error with a success status for the failure that it is", () => {
    for (const [error, code, status] of [
      [{ code: 500, message: "oops" }, "dispatch.upstream_failed", 502],
      [{ code: 400, message: "no such field" }, "dispatch.rejected", 400],
      ["oops", "dispatch.upstream_failed", 502],
    ] as const)
      for (const isStream of [false, true]) {
        const { relay, sink, head, data } = site({ isStream });
        head("application/json");
        data(JSON.stringify({ error }));
        relay.onEnd();
        assert.deepEqual([sink.failure?.code, sink.failure?.status], [code, status]);
      }
    const { relay, sink, head, data } = site();
    head("application/json");
    data('{"error":null,"choices":[]}');
    relay.onEnd();
    assert.equal(sink.failure, undefined);
  });

  it("keeps it until its end, names the model, and says how long it is", () => {
    const { relay, sink, log, head, data } = site();
    head("application/json; charset=utf-8");
    data('{"model":"eng');
    assert.deepEqual(sink.calls, []);
    data('ine"}');
    relay.onEnd();
    assert.deepEqual([sink.calls, sink.text, sink.status], [["begin", "end"], '{"model":"asked"}', 200]);
    assert.deepEqual(sink.headers, { "content-type": "application/json; charset=utf-8", "content-length": 17 });
    assert.deepEqual(log, ["first", "settled"]);
  });

  it("reports a failure within it with its own status", () => {
    const { relay, sink, head, data } = site();
    head("application/json");
    data('{"model"');
    relay.onError(broken);
    assert.deepEqual(sink.calls, ["refuse dispatch.upstream_failed"]);
  });

  for (const text of ['{"choices":[{"mess', "<html>busy</html>", "", "{", "[1,2"]) {
    it(`takes ${JSON.stringify(text)} for the engine's failure`, () => {
      const { relay, sink, head, data } = site();
      head("application/json");
      data(text);
      relay.onEnd();
      assert.deepEqual(sink.calls, ["refuse dispatch.upstream_failed"]);
      assert.equal(sink.failure?.message, "the engine's answer is not JSON");
    });
  }

  for (const text of ['\n{"a":1}\r\n', "[]", " 1 ", '"text"']) {
    it(`passes ${JSON.stringify(text)} on`, () => {
      const { relay, sink, head, data } = site();
      head("application/json");
      data(text);
      relay.onEnd();
      assert.equal(sink.text, text);
    });
  }

  it("relays a large answer in pieces, and loses no byte", () => {
    const { relay, sink, head, data } = site();
    const piece = "x".repeat(3 * 1024 * 1024);
    head("application/json");
    data('{"model":"engine","x":"');
    for (let count = 0; count < 4; count += 1) data(piece);
    assert.equal(sink.calls[0], "begin");
    data('"}');
    relay.onEnd();
    assert.equal(sink.text, `{"model":"asked","x":"${piece.repeat(4)}"}`);
  });

  it("is translated whole; an answer that cannot be translated is the engine's failure", () => {
    const answer = (body: Buffer): Buffer => {
      if (body.includes("odd")) throw new Error("odd");
      return Buffer.from(`<${body.toString()}>`);
    };
    const good = site({ translation: { answer } });
    good.head("application/json");
    good.data('{"model":"engine"}');
    good.relay.onEnd();
    assert.deepEqual([good.sink.text, good.sink.headers?.["content-length"]], ['<{"model":"asked"}>', 19]);
    const odd = site({ translation: { answer } });
    odd.head("application/json");
    odd.data('{"odd":1}');
    odd.relay.onEnd();
    assert.deepEqual([odd.sink.calls, odd.log], [["refuse dispatch.upstream_failed"], ["first", "settled"]]);
  });

  it("of another type than the requested stream is the engine's failure", () => {
    const { relay, sink, head, data, log } = site();
    sink.isHeld = true;
    head("application/json");
    data("{}");
    relay.onEnd();
    assert.deepEqual(sink.calls, ["refuse dispatch.upstream_failed"]);
    assert.equal(log.filter((each) => each === "settled").length, 1);
  });
});

describe("Relay of an event stream", () => {
  it("passes bytes on as they arrive", () => {
    const { relay, sink, head, data } = site();
    head("text/event-stream");
    assert.deepEqual(sink.calls, ["begin"]);
    data('data: {"model":"engine"}\n\nda');
    assert.equal(sink.text, 'data: {"model":"asked"}\n\n');
    data(`ta: {}\n\n${done}`);
    relay.onEnd();
    assert.deepEqual([sink.calls, sink.text], [["begin", "end"], `data: {"model":"asked"}\n\ndata: {}\n\n${done}`]);
  });

  it("ends cleanly when the engine ends after [DONE]", () => {
    const { relay, sink, head, data } = site();
    head("text/event-stream");
    data(done);
    relay.onError(broken);
    assert.deepEqual(sink.calls, ["begin", "end"]);
  });

  for (const [what, end] of [
    ["ends", ({ relay }: Site) => relay.onEnd()],
    ["breaks off", ({ relay }: Site) => relay.onError(broken)],
  ] as const) {
    it(`is whole when its engine ${what} without having ended its last line`, () => {
      const one = site();
      one.head("text/event-stream");
      one.data(done.trimEnd());
      end(one);
      assert.deepEqual([one.sink.calls, one.sink.text], [["begin", "end"], done]);
      assert.deepEqual(one.log, ["first", "settled"]);
    });
  }

  it("reports an error in a last line without an end", () => {
    const { relay, sink, log, head, data } = site();
    head("text/event-stream");
    data('data: {"error":{"code":429,"message":"too many"}}');
    relay.onEnd();
    assert.deepEqual([sink.calls, sink.failure?.message], [["begin", "refuse dispatch.rejected"], "too many"]);
    assert.deepEqual(log, ["first", "abort", "settled"]);
  });

  for (const [what, act] of [
    ["that ends early", ({ relay }: Site) => relay.onEnd()],
    ["that breaks", ({ relay }: Site) => relay.onError(broken)],
    ["with an error in it", ({ data }: Site) => data('data: {"error":{"code":500}}\n\n')],
    ["that is none", ({ data }: Site) => data("<html>\n")],
  ] as const) {
    it(`${what} is refused once, and the exchange is over`, () => {
      const one = site();
      one.head("text/event-stream");
      act(one);
      assert.deepEqual(one.sink.calls, ["begin", "refuse dispatch.upstream_failed"]);
      assert.equal(one.log.filter((each) => each === "settled").length, 1);
      // Whatever else the exchange says now is nobody's.
      one.data("data: {}\n\n");
      one.relay.onEnd();
      one.relay.onError(broken);
      one.relay.abort();
      assert.equal(one.sink.calls.length, 2);
    });
  }

  it("that cannot be written again is the engine's failure, and no exception of the gateway", () => {
    const deep = site({ isChat: true });
    deep.head("text/event-stream");
    deep.data(`data: {"x":${"[".repeat(200_000)}${"]".repeat(200_000)},"choices":[{"delta":{}}]}\n\n`);
    const odd = (): never => {
      throw new RangeError("Maximum call stack size exceeded");
    };
    const last = site({ translation: { answer: odd, stream: { push: (bytes) => bytes, end: odd } } });
    last.head("text/event-stream");
    last.data(done);
    last.relay.onEnd();
    for (const { sink, log } of [deep, last]) {
      assert.deepEqual([sink.failure?.code, log.at(-1)], ["dispatch.upstream_failed", "settled"]);
      assert.match(
        sink.failure?.message ?? "",
        /^the engine's answer (has another shape|is broken: an event is not JSON)$/,
      );
    }
  });

  it("lets the engine wait for its reader, once, and then continues", () => {
    const { sink, log, head, data } = site({}, 10);
    head("text/event-stream");
    data("data: 0123456789\n\n");
    assert.deepEqual([log.at(-1), sink.isWaiting], ["pause", true]);
    sink.drain(5);
    assert.equal(log.at(-1), "resume");
    data("data: 0123456789\n\n");
    assert.deepEqual(log, ["first", "pause", "resume", "pause"]);
  });

  it("is translated as it arrives, with the translation's rest at the end", () => {
    const translation: AnswerTranslation = {
      answer: (body) => body,
      stream: {
        push: (bytes) => (bytes.includes("skip") ? undefined : bytes),
        end: () => Buffer.from("event: stop\n\n"),
      },
    };
    const { relay, sink, head, data } = site({ translation });
    head("text/event-stream");
    data(`data: skip\n\n`);
    data(done);
    relay.onEnd();
    assert.equal(sink.text, `${done}event: stop\n\n`);
  });
});

describe("Relay of other answers", () => {
  it("passes bytes with their type and length", () => {
    const { relay, sink, head, data } = site();
    head("audio/mpeg", 200, "4");
    data("\u0001\u0002");
    data("34");
    relay.onEnd();
    assert.deepEqual(
      [sink.calls, sink.text, sink.headers],
      [["begin", "end"], "\u0001\u000234", { "content-type": "audio/mpeg", "content-length": "4" }],
    );
  });

  it("makes an envelope of every other status", () => {
    for (const [status, code, body] of [
      [301, "dispatch.upstream_failed", ""],
      [400, "dispatch.rejected", '{"error":{"message":"too long"}}'],
      [404, "dispatch.rejected", "not found"],
      [500, "dispatch.upstream_failed", '{"error":"/secret"}'],
    ] as const) {
      const { relay, sink, head, data } = site();
      head("application/json", status);
      if (body !== "") data(body);
      relay.onEnd();
      assert.deepEqual(sink.calls, [`refuse ${code}`]);
      assert.doesNotMatch(JSON.stringify(sink.failure?.envelope()), /secret/);
    }
  });

  it("reports an error without an end at its time limit", (context) => {
    context.mock.timers.enable({ apis: ["setTimeout"] });
    const { sink, log, head, data } = site();
    head("text/plain", 400);
    data("it was");
    context.mock.timers.tick(9999);
    assert.deepEqual(sink.calls, []);
    context.mock.timers.tick(1);
    assert.deepEqual([sink.calls, log], [["refuse dispatch.rejected"], ["first", "abort", "settled"]]);
    data("late");
  });

  it("keeps a bounded part of a refusal", () => {
    const { relay, sink, head, data } = site();
    head("text/plain", 400);
    for (let count = 0; count < 100; count += 1) data("x".repeat(10_000));
    relay.onEnd();
    assert.ok(JSON.stringify(sink.failure?.envelope()).length < 10_000);
  });

  it("asks whether a request that never reached the engine goes once more", () => {
    const refused = new ExchangeError("connect", "refused");
    const again = site({ onFailed: () => true });
    again.relay.onError(refused);
    assert.deepEqual([again.sink.calls, again.log], [[], []]);
    const never = site();
    never.relay.onError(refused);
    assert.deepEqual([never.sink.calls, never.log], [["refuse dispatch.upstream_unavailable"], ["settled"]]);
  });

  it("stops the engine when the exchange is aborted, once", () => {
    const { relay, sink, log, head, data } = site();
    head("text/event-stream");
    relay.abort();
    relay.abort();
    data(done);
    relay.onEnd();
    assert.deepEqual([sink.calls, log], [["begin"], ["first", "abort", "settled"]]);
  });
});

it("Relay answers once, for any events of the exchange", () => {
  const text = fc.constantFrom(
    'data: {"model":"engine"}\n\n',
    done,
    "data: ",
    "{",
    '{"model":"engine"}',
    "\n",
    "x",
    'data: {"error":{}}\n\n',
  );
  const says = fc.record({
    type: fc.constantFrom("text/event-stream", "application/json", "audio/wav", undefined),
    status: fc.constantFrom(200, 201, 204, 302, 400, 500),
    chunks: fc.array(text, { maxLength: 6 }),
    last: fc.constantFrom("end", "error", "abort", "both"),
    isHeld: fc.boolean(),
    room: fc.constantFrom(1, Infinity),
  });
  fc.assert(
    fc.property(says, ({ type, status, chunks, last, isHeld, room }) => {
      const { relay, sink, log, head, data } = site({}, room);
      sink.isHeld = isHeld;
      head(type, status);
      for (const chunk of chunks) {
        if (sink.isWaiting) sink.drain(room);
        data(chunk);
      }
      if (last === "abort") relay.abort();
      if (last === "end" || last === "both") relay.onEnd();
      if (last === "error" || last === "both") relay.onError(broken);
      const endings = sink.calls.filter((call) => call !== "begin");
      assert.ok(endings.length === 1 || (last === "abort" && endings.length === 0), sink.calls.join());
      assert.equal(log.filter((each) => each === "settled").length, 1);
      if (sink.failure !== undefined)
        assert.ok(sink.failure instanceof ApiError && sink.failure.code !== "system.internal");
    }),
    { numRuns: 2000 },
  );
});
