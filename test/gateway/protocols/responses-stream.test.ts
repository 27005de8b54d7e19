import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type OpenAI from "openai";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { fc } from "../../support/fast-check.ts";
import { record } from "../../support/openai.ts";
import {
  callChunk,
  chunk,
  cutAt,
  done,
  encode,
  failureOf,
  manyCalls,
  nothingKept,
  openaiReading,
  text,
  through,
  usageChunk,
} from "./bodies.ts";
import { exchanging } from "./site.ts";

function open(): ResponsesTranslation {
  const translation = new ResponsesTranslation(nothingKept);
  translation.request(encode({ model: "primary", input: "x", stream: true }));
  return translation;
}

/** The events, each with its name checked against its type, and its number against its place. */
function eventsOf(sent: string): Record<string, unknown>[] {
  return sent
    .split("\n\n")
    .filter((event) => event !== "" && !event.startsWith(":"))
    .map((event, at) => {
      const [, name, json] = /^event: ([\w.]+)\ndata: (.*)$/.exec(event) ?? assert.fail(`no event: ${event}`);
      const parsed = record(JSON.parse(json ?? ""));
      assert.deepEqual([parsed["type"], parsed["sequence_number"]], [name, at]);
      return parsed;
    });
}

/** What the official SDK makes of a stream. */
const read = (sent: string): Promise<OpenAI.Responses.Response> =>
  openaiReading(sent).responses.stream({ model: "primary", input: "x" }).finalResponse();

const words = chunk({ role: "assistant", content: "" }) + chunk({ content: "Hel" }) + chunk({ content: "lo." });

describe("a chat stream as Responses events", () => {
  const ask = exchanging("/v1/responses", { model: "primary", input: "x", stream: true });
  const translate = async (...sent: readonly string[]): Promise<string> => (await ask({}, sent.join(""))).text;

  it("are these, in this order, for a text", async () => {
    const sent = await translate(words, chunk({}, "stop"), usageChunk, done);
    const events = eventsOf(sent);
    assert.deepEqual(
      events.map(({ type, output_index: item, content_index: part, delta }) => [type, item, part, delta]),
      [
        ["response.created", undefined, undefined, undefined],
        ["response.in_progress", undefined, undefined, undefined],
        ["response.output_item.added", 0, undefined, undefined],
        ["response.content_part.added", 0, 0, undefined],
        ["response.output_text.delta", 0, 0, "Hel"],
        ["response.output_text.delta", 0, 0, "lo."],
        ["response.output_text.done", 0, 0, undefined],
        ["response.content_part.done", 0, 0, undefined],
        ["response.output_item.done", 0, undefined, undefined],
        ["response.completed", undefined, undefined, undefined],
      ],
    );
    assert.equal(new Set(events.flatMap(({ item_id: id }) => (id === undefined ? [] : [id]))).size, 1);
    const { output_text: spoken, status, model, usage } = await read(sent);
    assert.deepEqual([spoken, status, model, usage?.total_tokens], ["Hello.", "completed", "primary", 13]);
  });

  it("keep thoughts, text and calls apart, however the pieces of calls are mixed", async () => {
    const sent = await translate(
      chunk({ reasoning_content: "h" }),
      chunk({ reasoning_content: "m" }),
      chunk({ content: "wait" }),
      callChunk(0, "", { id: "a", name: "read" }),
      callChunk(1, "{", { id: "b", name: "list" }),
      callChunk(0, '{"x":'),
      callChunk(1, "}"),
      callChunk(0, "1}"),
      chunk({}, "tool_calls"),
      done,
    );
    eventsOf(sent);
    const { output } = await read(sent);
    assert.deepEqual(
      output.map((item) => {
        if (item.type === "reasoning") return item.content?.[0]?.text;
        if (item.type === "message") return item.content;
        return item.type === "function_call" ? [item.call_id, item.name, item.arguments, item.status] : item;
      }),
      [
        "hm",
        [{ ...text("wait", "output_text"), annotations: [], logprobs: [], parsed: null }],
        ["a", "read", '{"x":1}', "completed"],
        ["b", "list", "{}", "completed"],
      ],
    );
  });

  for (const [finish, reason] of [
    ["length", "max_output_tokens"],
    ["content_filter", "content_filter"],
  ])
    it(`report an answer that was cut by ${finish}, and its last item, as incomplete`, async () => {
      const sent = await translate(words, chunk({}, finish), done);
      assert.equal(eventsOf(sent).at(-1)?.["type"], "response.incomplete");
      const { status, incomplete_details: details, output } = await read(sent);
      assert.deepEqual([status, details?.reason], ["incomplete", reason]);
      assert.ok(output[0]?.type === "message" && output[0].status === "incomplete");
    });

  it("carry a refusal as a refusal", async () => {
    const [item] = (await read(await translate(chunk({ refusal: "No." }), chunk({}, "stop"), done))).output;
    assert.ok(item?.type === "message");
    assert.deepEqual(item.content, [{ type: "refusal", refusal: "No.", parsed: null }]);
  });

  it("relay an engine's comment as a comment, so that clients keep waiting", async () => {
    assert.match(await translate(": still here\n\n", words, chunk({}, "stop"), done), /: ping\n\n/);
  });

  it("end as failed, with the received items and the next numbers, where the engine ends early or says an error", async () => {
    const said = 'data: {"error":{"code":400,"message":"no"}}\n\n';
    for (const [rest, code, message] of [
      ["", "dispatch.upstream_failed", "the stream ended early"],
      [said, "dispatch.rejected", "no"],
    ] as const) {
      const sent = await translate(words, rest);
      const [error, failed] = eventsOf(sent).slice(-2);
      assert.deepEqual([error?.["type"], error?.["code"]], ["error", code]);
      assert.equal(failed?.["type"], "response.failed");
      const { status, error: why, output } = record(failed["response"]);
      assert.deepEqual([status, why], ["failed", { code, message }]);
      assert.match(JSON.stringify(output), /"status":"incomplete".*"Hello\."/);
      await assert.rejects(read(sent), { message: new RegExp(message) });
    }
  });

  const million = "x".repeat(1024 * 1024);
  const endless: readonly (readonly [what: string, event: (at: number) => string])[] = [
    ["text", () => chunk({ content: million })],
    ["name of a tool", () => callChunk(0, "", { id: "a", name: million })],
    ["list of calls", manyCalls],
  ];
  for (const [what, event] of endless)
    it(`fail where the engine's ${what} never ends`, () => {
      const { stream } = open();
      const failure = failureOf(() => {
        for (let at = 0; at < 80; at++) stream.push(Buffer.from(event(at)));
      });
      assert.match(failure.message, /longer than 4 MiB/);
    });

  it("are the same however the engine's bytes are split", () => {
    const sent = Buffer.from(
      [words, callChunk(0, "{}", { id: "a", name: "read" }), chunk({}, "stop"), usageChunk, done].join(""),
    );
    const plain = (events: string): string =>
      events.replaceAll(/(resp|msg|fc)_[0-9a-f]{32}/g, "$1").replaceAll(/"(created|completed)_at":\d+/g, "$1");
    const whole = plain(through(open(), [sent]));
    fc.assert(
      fc.property(fc.array(fc.nat(sent.length), { maxLength: 8 }), (cuts) =>
        assert.equal(plain(through(open(), cutAt(sent, cuts))), whole),
      ),
    );
  });
});

describe("an engine's own Responses stream", () => {
  const ask = exchanging("/v1/responses", { model: "primary", input: "x" }, { status: { protocols: ["responses"] } });
  const event = (type: string, fields: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

  it("is passed as the engine wrote it, without numbers too", async () => {
    for (const numbers of [{}, { sequence_number: 7 }]) {
      const sent =
        event("response.created", { ...numbers, response: { id: "resp_1", status: "in_progress" } }) +
        event("response.output_text.delta", { ...numbers, item_id: "msg_1", delta: "hi" }) +
        event("response.completed", { ...numbers, response: { id: "resp_1", status: "completed" } });
      assert.equal((await ask({ stream: true }, sent)).text, sent);
    }
  });
});
