import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { ApiError } from "../../../src/api/errors.ts";
import { BufferBudget } from "../../../src/gateway/slots/budget.ts";
import { engineRefusal } from "../../../src/gateway/relay/engine-failure.ts";
import type { AnswerFormat } from "../../../src/gateway/relay/answer-format.ts";
import { clientGone } from "../../../src/gateway/proxy/call.ts";
import type { Dispatch, Recipient } from "../../../src/gateway/proxy/recipient.ts";
import { refuse, relay } from "../../../src/gateway/proxy/relay.ts";
import { send } from "../../../src/gateway/proxy/send.ts";
import { ExchangeError, type ExchangeEvents } from "../../../src/lib/exchange.ts";
import { HistogramSeries } from "../../../src/lib/metrics/histogram.ts";
import { ValueSeries } from "../../../src/lib/metrics/families.ts";
import { RecorderSink } from "./recorder.ts";
import { fc } from "../../support/fast-check.ts";

type Options = AnswerFormat & { room?: number; isHeld?: boolean; isStream?: boolean };

const slotMetrics = {
  tokensIn: new ValueSeries("", 0),
  tokensOut: new ValueSeries("", 0),
  betweenTokens: new HistogramSeries("", []),
};

function site({ room, isHeld = false, isStream = false, ...format }: Options = {}) {
  const sink = new RecorderSink(room);
  sink.isHeld = isHeld;
  /** What the exchange was told, and the end of the answer. */
  const log: string[] = [];
  const leaving = new AbortController();
  const to: Recipient = {
    clients: [],
    signal: leaving.signal,
    requestId: "id",
    trace: undefined,
    arrive: () => assert.fail(),
    bodyDone: () => undefined,
  };
  let answer: ExchangeEvents | undefined;
  const exchange = {
    pause: () => void log.push("pause"),
    resume: () => void log.push("resume"),
    abort: () => void log.push("abort"),
  };
  const dispatch: Dispatch = {
    prepared: { request: { model: "asked", isStream }, backendRequest: { served: "engine", format } },
    name: "primary",
    attempt: undefined,
    enter: () => undefined,
    send: (events) => {
      answer = events;
      return exchange;
    },
    heard: () => undefined,
    succeeded: () => undefined,
    refusal: ({ status }, body) => engineRefusal(status, body, undefined),
    failed: (error) => error,
    answered: () => undefined,
    masked: (failure) => failure,
    retry: async () => false,
    [Symbol.dispose]: () => undefined,
  };
  async function run(): Promise<void> {
    try {
      using whole = await send(dispatch, to, { metrics: { ofSlot: () => slotMetrics } });
      await relay(whole, dispatch, sink, new BufferBudget(1e9));
    } catch (error) {
      if (error !== clientGone) refuse(sink, error);
    } finally {
      log.push("settled");
    }
  }
  const ended = run();
  assert.ok(answer !== undefined, "it is sent at once");
  const backend: ExchangeEvents = answer;
  const head = (contentType: string | undefined, status = 200, contentLength?: string): void =>
    backend.onHead({ status, contentType, contentLength, isKeptAlive: true });
  const abort = (): void => leaving.abort(clientGone);
  return { answer: backend, sink, log, ended, head, abort, data: (text: string) => backend.onData(Buffer.from(text)) };
}

type Site = ReturnType<typeof site>;

/** A whole exchange with these pieces as its answer. */
async function answered(options: Options, type: string, ...pieces: readonly string[]): Promise<Site> {
  const one = site(options);
  one.head(type);
  for (const piece of pieces) one.data(piece);
  one.answer.onEnd();
  await one.ended;
  return one;
}

const json = "application/json";
const events = "text/event-stream";
const broken = new ExchangeError("broken", "the connection closed");
const done = 'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

describe("Relay of JSON", () => {
  const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
  for (const isHeld of [false, true])
    it(`sends a whole answer to a stream's request as its events, ${isHeld ? "held" : "not held"}`, async () => {
      const message = { role: "assistant", content: "hi", tool_calls: [call] };
      const choices = [{ index: 0, message, finish_reason: "tool_calls" }];
      const usage = { prompt_tokens: 1, completion_tokens: 2 };
      const answer = { id: "1", object: "chat.completion", model: "engine", choices, usage };
      const { sink } = await answered({ isStream: true, isChat: true, isHeld }, json, JSON.stringify(answer));
      assert.deepEqual([sink.headers?.["content-type"], sink.calls.at(-1)], [events, "end"]);
      const chunk = (delta: object, finish: string | null = null): object => {
        const choice = { index: 0, delta, finish_reason: finish };
        return { id: "1", model: "asked", object: "chat.completion.chunk", choices: [choice] };
      };
      const sent = sink.text.split("\n\n").slice(0, -1);
      assert.equal(sent.pop(), "data: [DONE]");
      assert.deepEqual(
        sent.map((event): unknown => JSON.parse(event.slice("data: ".length))),
        [
          chunk({ role: "assistant", content: "" }),
          chunk({ content: "hi", tool_calls: [{ index: 0, ...call }] }),
          { ...chunk({}, "tool_calls"), usage },
        ],
      );
    });

  it("sends a whole completion to a stream's request as one event", async () => {
    const choices = '"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]';
    const { sink } = await answered(
      { isStream: true },
      json,
      `{"object":"text_completion","model":"engine",${choices}}`,
    );
    assert.equal(sink.text, `data: {"model":"asked","object":"text_completion",${choices}}\n\ndata: [DONE]\n\n`);
  });

  for (const [error, code, status] of [
    [{ code: 500, message: "oops" }, "dispatch.upstream_failed", 502],
    [{ code: 400, message: "no such field" }, "dispatch.rejected", 400],
    ["oops", "dispatch.upstream_failed", 502],
  ] as const)
    it(`takes the error ${JSON.stringify(error)} with a success status for the failure that it is`, async () => {
      for (const isStream of [false, true]) {
        const { failure } = (await answered({ isStream }, json, JSON.stringify({ error }))).sink;
        assert.deepEqual([failure?.code, failure?.status], [code, status]);
      }
    });

  it("keeps it until its end, names the model, and says how long it is", async () => {
    const { answer, sink, log, ended, head, data } = site();
    head("application/json; charset=utf-8");
    data('{"model":"eng');
    await turn();
    assert.deepEqual(sink.calls, []);
    data('ine"}');
    answer.onEnd();
    await ended;
    assert.deepEqual([sink.calls, sink.text, sink.status], [["begin", "end"], '{"model":"asked"}', 200]);
    assert.deepEqual(sink.headers, { "content-type": "application/json; charset=utf-8", "content-length": 17 });
    assert.deepEqual(log, ["settled"]);
  });

  for (const text of ['{"choices":[{"mess', "<html>busy</html>", "", "{", "[1,2"])
    it(`takes ${JSON.stringify(text)} for the engine's failure`, async () => {
      const { calls, failure } = (await answered({}, json, text)).sink;
      assert.deepEqual(calls, ["refuse dispatch.upstream_failed"]);
      assert.equal(failure?.message, "the answer is not JSON");
    });

  for (const text of ['\n{"a":1}\r\n', "[]", " 1 ", '"text"', '{"error":null,"choices":[]}'])
    it(`passes ${JSON.stringify(text)} on`, async () => assert.equal((await answered({}, json, text)).sink.text, text));

  it("relays a large answer in pieces, and loses no byte", async () => {
    const { answer, sink, ended, head, data } = site();
    const piece = "x".repeat(3 * 1024 * 1024);
    head(json);
    data('{"model":"engine","x":"');
    for (let count = 0; count < 4; count += 1) data(piece);
    await turn();
    assert.equal(sink.calls[0], "begin");
    data('"}');
    answer.onEnd();
    await ended;
    assert.ok(sink.text === `{"model":"asked","x":"${piece.repeat(4)}"}`);
  });

  it("is translated whole; an answer that cannot be translated is the engine's failure", async () => {
    const answer = (body: Buffer): Buffer => {
      if (body.includes("odd")) throw new Error("odd");
      return Buffer.from(`<${body.toString()}>`);
    };
    const { sink: good } = await answered({ translation: { answer } }, json, '{"model":"engine"}');
    assert.deepEqual([good.text, good.headers?.["content-length"]], ['<{"model":"asked"}>', 19]);
    const odd = await answered({ translation: { answer } }, json, '{"odd":1}');
    assert.deepEqual([odd.sink.calls, odd.log], [["refuse dispatch.upstream_failed"], ["settled"]]);
  });
});

describe("Relay of an event stream", () => {
  const ends = ({ answer }: Site): void => answer.onEnd();
  const breaks = ({ answer }: Site): void => answer.onError(broken);
  for (const [what, sent, end] of [
    ["breaks after [DONE]", done, breaks],
    ["ends without having ended its last line", done.trimEnd(), ends],
    ["breaks off without having ended its last line", done.trimEnd(), breaks],
  ] as const)
    it(`is whole when its engine ${what}`, async () => {
      const one = site();
      one.head(events);
      one.data(sent);
      end(one);
      await one.ended;
      assert.deepEqual([one.sink.calls, one.sink.text], [["begin", "end"], done]);
      assert.deepEqual(one.log, ["settled"]);
    });

  it("reports an error in a last line without an end", async () => {
    const { sink, log } = await answered({}, events, 'data: {"error":{"code":429,"message":"too many"}}');
    assert.deepEqual([sink.calls, sink.failure?.message], [["begin", "refuse dispatch.rejected"], "too many"]);
    assert.deepEqual(log, ["settled"]);
  });

  for (const [what, act] of [
    ["that ends early", ends],
    ["that breaks", breaks],
    ["with an error in it", ({ data }: Site) => data('data: {"error":{"code":500}}\n\n')],
    ["that is none", ({ data }: Site) => data("<html>\n")],
  ] as const)
    it(`${what} is refused once, and the exchange is over`, async () => {
      const one = site();
      one.head(events);
      act(one);
      await one.ended;
      assert.deepEqual(one.sink.calls, ["begin", "refuse dispatch.upstream_failed"]);
      assert.equal(one.log.filter((each) => each === "settled").length, 1);
      // Whatever else the exchange says now is nobody's.
      one.data("data: {}\n\n");
      ends(one);
      breaks(one);
      one.abort();
      await turn();
      assert.equal(one.sink.calls.length, 2);
    });

  it("that cannot be written again is the engine's failure, and no exception of the gateway", async () => {
    const nested = `{"x":${"[".repeat(200_000)}${"]".repeat(200_000)},"choices":[{"delta":{}}]}`;
    const odd = (): never => {
      throw new RangeError("Maximum call stack size exceeded");
    };
    for (const { sink, log } of [
      await answered({ isChat: true }, events, `data: ${nested}\n\n`),
      await answered({ translation: { answer: odd, stream: { push: (bytes) => bytes, end: odd } } }, events, done),
    ]) {
      assert.deepEqual([sink.failure?.code, log.at(-1)], ["dispatch.upstream_failed", "settled"]);
      const told = /^the answer (has another shape|is broken: an event is not JSON)$/;
      assert.match(sink.failure?.message ?? "", told);
    }
  });

  it("is translated as it arrives, with the translation's rest at the end", async () => {
    const stream = {
      push: (bytes: Buffer) => (bytes.includes("skip") ? undefined : bytes),
      end: () => Buffer.from("event: stop\n\n"),
    };
    const { sink } = await answered(
      { translation: { answer: (body) => body, stream } },
      events,
      "data: skip\n\n",
      done,
    );
    assert.equal(sink.text, `${done}event: stop\n\n`);
  });

  it("lets the engine wait for its reader, once, and then continues", async () => {
    const { sink, log, head, data } = site({ room: 10 });
    head(events);
    data("data: 0123456789\n\n");
    await turn();
    assert.deepEqual([log.at(-1), sink.isWaiting], ["pause", true]);
    sink.drain(5);
    assert.equal(log.at(-1), "resume");
    data("data: 0123456789\n\n");
    assert.deepEqual(log, ["pause", "resume", "pause"]);
  });
});

describe("Relay of other answers", () => {
  it("passes bytes with their type and length", async () => {
    const { answer, sink, ended, head, data } = site();
    head("audio/mpeg", 200, "4");
    data("\u0001\u0002");
    data("34");
    answer.onEnd();
    await ended;
    assert.deepEqual([sink.calls, sink.text], [["begin", "end"], "\u0001\u000234"]);
    assert.deepEqual(sink.headers, { "content-type": "audio/mpeg", "content-length": "4" });
  });

  it("reports an error without an end at its time limit", async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    using _ = { [Symbol.dispose]: () => mock.timers.reset() };
    const { sink, log, ended, head, data } = site();
    head("text/plain", 400);
    data("it was");
    await turn();
    assert.deepEqual(sink.calls, []);
    mock.timers.tick(10_000);
    await ended;
    assert.deepEqual([sink.calls, log], [["refuse dispatch.rejected"], ["abort", "settled"]]);
    data("late");
  });
});

it("Relay answers once, for any events of the exchange", async () => {
  const pieces = ['data: {"model":"engine"}\n\n', done, "data: ", "{", '{"model":"engine"}', "\n", "x"];
  const says = fc.record({
    type: fc.constantFrom(events, json, "audio/wav", undefined),
    status: fc.constantFrom(200, 201, 204, 302, 400, 500),
    chunks: fc.array(fc.constantFrom(...pieces, 'data: {"error":{}}\n\n'), { maxLength: 6 }),
    last: fc.constantFrom("end", "error", "abort", "both"),
    isHeld: fc.boolean(),
    room: fc.constantFrom(1, Infinity),
  });
  await fc.assert(
    fc.asyncProperty(says, async ({ type, status, chunks, last, isHeld, room }) => {
      const { answer, sink, log, ended, head, abort, data } = site({ room, isHeld });
      head(type, status);
      for (const chunk of chunks) {
        if (sink.isWaiting) sink.drain(room);
        data(chunk);
        await turn();
      }
      if (last === "abort") abort();
      if (last === "end" || last === "both") answer.onEnd();
      if (last === "error" || last === "both") answer.onError(broken);
      for (let count = 0; sink.isWaiting && count < 3; count++) {
        sink.drain(room);
        await turn();
      }
      await ended;
      const endings = sink.calls.filter((call) => call !== "begin");
      assert.ok(endings.length === 1 || (last === "abort" && endings.length === 0), sink.calls.join());
      assert.equal(log.filter((each) => each === "settled").length, 1);
      if (sink.failure !== undefined)
        assert.ok(sink.failure instanceof ApiError && sink.failure.code !== "system.internal");
    }),
  );
});
