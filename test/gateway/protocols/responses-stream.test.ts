import assert from "node:assert/strict";
import { describe, it } from "node:test";
import OpenAI from "openai";
import { ApiError } from "../../../src/api/errors.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { NumberedResponses } from "../../../src/gateway/protocols/responses-numbering.ts";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { fc } from "../../support/fast-check.ts";
import { failureOf, nothingKept } from "./bodies.ts";

const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "engine" };
const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };

function chunk(delta: object, finish: string | null = null): string {
  return `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
}
const usageChunk = `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`;
const done = "data: [DONE]\n\n";
const call = (index: number, fields: object): string => chunk({ tool_calls: [{ index, ...fields }] });
const named = (index: number, id: string, name: string, text: string): string =>
  call(index, { id, type: "function", function: { name, arguments: text } });

function open(): ResponsesTranslation {
  const translation = new ResponsesTranslation(nothingKept);
  translation.request(Buffer.from(JSON.stringify({ model: "primary", input: "x", stream: true })));
  return translation;
}

function translate(sent: string, { stream }: ResponsesTranslation = open()): string {
  return Buffer.concat([stream.push(Buffer.from(sent)) ?? Buffer.alloc(0), stream.end() ?? Buffer.alloc(0)]).toString();
}

/** The events, each with its name checked against its type, and its number against its place. */
function eventsOf(text: string): Record<string, unknown>[] {
  return text
    .split("\n\n")
    .filter((event) => event !== "" && !event.startsWith(":"))
    .map((event, at) => {
      const [, name, data] = /^event: ([\w.]+)\ndata: (.*)$/.exec(event) ?? assert.fail(`no event: ${event}`);
      const parsed: unknown = JSON.parse(data ?? "");
      assert.ok(isRecord(parsed));
      assert.deepEqual([parsed["type"], parsed["sequence_number"]], [name, at]);
      return parsed;
    });
}

/** What the official SDK makes of a stream; no socket is opened. */
function read(sent: string): ReturnType<OpenAI["responses"]["stream"]> {
  const client = new OpenAI({
    apiKey: "none",
    baseURL: "http://127.0.0.1:9/v1",
    maxRetries: 0,
    fetch: () => Promise.resolve(new Response(sent, { headers: { "content-type": "text/event-stream" } })),
  });
  return client.responses.stream({ model: "primary", input: "x" });
}

describe("a chat stream as Responses events", () => {
  const text = [chunk({ role: "assistant", content: "" }), chunk({ content: "Hel" }), chunk({ content: "lo." })].join(
    "",
  );

  it("are these, in this order, for a text", async () => {
    const sent = translate([text, chunk({}, "stop"), usageChunk, done].join(""));
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
    const items = new Set(events.flatMap(({ item_id: id }) => (id === undefined ? [] : [id])));
    assert.equal(items.size, 1);
    const response = await read(sent).finalResponse();
    assert.deepEqual(
      [response.output_text, response.status, response.model, response.usage?.total_tokens],
      ["Hello.", "completed", "primary", 13],
    );
  });

  it("keep thoughts, text and calls apart, however the pieces of calls are mixed", async () => {
    const sent = translate(
      [
        chunk({ reasoning_content: "h" }),
        chunk({ reasoning_content: "m" }),
        chunk({ content: "wait" }),
        named(0, "a", "read", ""),
        named(1, "b", "list", "{"),
        call(0, { function: { arguments: '{"x":' } }),
        call(1, { function: { arguments: "}" } }),
        call(0, { function: { arguments: "1}" } }),
        chunk({}, "tool_calls"),
        done,
      ].join(""),
    );
    eventsOf(sent);
    const { output } = await read(sent).finalResponse();
    assert.deepEqual(
      output.map((item) => {
        if (item.type === "reasoning") return item.content?.[0]?.text;
        if (item.type === "message") return item.content;
        return item.type === "function_call" ? [item.call_id, item.name, item.arguments, item.status] : item;
      }),
      [
        "hm",
        [{ type: "output_text", annotations: [], logprobs: [], text: "wait", parsed: null }],
        ["a", "read", '{"x":1}', "completed"],
        ["b", "list", "{}", "completed"],
      ],
    );
  });

  it("report an answer that was cut, and its last item, as incomplete", async () => {
    const sent = translate([text, chunk({}, "length"), done].join(""));
    const last = eventsOf(sent).at(-1);
    assert.equal(last?.["type"], "response.incomplete");
    const response = await read(sent).finalResponse();
    assert.deepEqual([response.status, response.incomplete_details?.reason], ["incomplete", "max_output_tokens"]);
    const [item] = response.output;
    assert.ok(item?.type === "message" && item.status === "incomplete");
    const filtered = eventsOf(translate([text, chunk({}, "content_filter"), done].join(""))).at(-1)?.["response"];
    assert.ok(isRecord(filtered));
    assert.deepEqual(filtered["incomplete_details"], { reason: "content_filter" });
  });

  it("carry a refusal as a refusal", async () => {
    const sent = translate([chunk({ refusal: "No." }), chunk({}, "stop"), done].join(""));
    const [item] = (await read(sent).finalResponse()).output;
    assert.ok(item?.type === "message");
    assert.deepEqual(item.content, [{ type: "refusal", refusal: "No.", parsed: null }]);
  });

  it("relay an engine's comment as a comment, so that clients keep waiting", () => {
    assert.equal(open().stream.push(Buffer.from(": still here\n\n"))?.toString(), ": ping\n\n");
  });

  it("end as failed, with the received items and the next numbers, where the engine fails", async () => {
    const { stream } = open();
    const before = stream.push(Buffer.from(text))?.toString() ?? "";
    const sent = before + stream.fail(new ApiError("dispatch.upstream_failed", { message: "the engine died" }));
    const [error, failed] = eventsOf(sent).slice(-2);
    assert.deepEqual([error?.["type"], error?.["code"]], ["error", "dispatch.upstream_failed"]);
    assert.ok(failed?.["type"] === "response.failed" && isRecord(failed["response"]));
    const { status, error: why, output } = failed["response"];
    assert.deepEqual([status, why], ["failed", { code: "dispatch.upstream_failed", message: "the engine died" }]);
    assert.match(JSON.stringify(output), /"status":"incomplete".*"Hello\."/);
    await assert.rejects(read(sent).finalResponse(), { message: /the engine died/ });
  });

  it("fail where the engine's stream ends early, says an error, or never ends", () => {
    assert.equal(failureOf(() => translate(text)).code, "dispatch.upstream_failed");
    assert.equal(
      failureOf(() => translate('data: {"error":{"code":400,"message":"no"}}\n\n')).code,
      "dispatch.rejected",
    );
    const endless = chunk({ content: "x".repeat(1024 * 1024) });
    const { stream } = open();
    const failure = failureOf(() => {
      for (let at = 0; at < 20; at++) stream.push(Buffer.from(endless));
    });
    assert.match(failure.message, /longer than 4 MiB/);
    const names = open();
    const longNames = failureOf(() => {
      for (let at = 0; at < 20; at++) names.stream.push(Buffer.from(named(0, "a", "x".repeat(1024 * 1024), "")));
    });
    assert.match(longNames.message, /longer than 4 MiB/);
    const calls = open();
    const manyCalls = failureOf(() => {
      for (let at = 0; at < 40_000; at++) calls.stream.push(Buffer.from(named(at, "a", "b", "")));
    });
    assert.match(manyCalls.message, /longer than 4 MiB/);
  });

  it("are the same however the engine's bytes are split", () => {
    const sent = [text, named(0, "a", "read", "{}"), chunk({}, "stop"), usageChunk, done].join("");
    const ids = /(resp|msg|fc)_[0-9a-f]{32}/g;
    const times = /"(created|completed)_at":\d+/g;
    const plain = (events: string): string => events.replaceAll(ids, "$1").replaceAll(times, "$1");
    const whole = plain(translate(sent));
    fc.assert(
      fc.property(fc.array(fc.nat(sent.length), { maxLength: 8 }), (cuts) => {
        const { stream } = open();
        const parts: Buffer[] = [];
        let from = 0;
        for (const to of [...cuts.toSorted((a, b) => a - b), sent.length]) {
          parts.push(stream.push(Buffer.from(sent.slice(from, to))) ?? Buffer.alloc(0));
          from = to;
        }
        parts.push(stream.end() ?? Buffer.alloc(0));
        assert.equal(plain(Buffer.concat(parts).toString()), whole);
      }),
    );
  });
});

describe("an engine's own Responses stream", () => {
  const event = (type: string, fields: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
  const message = { id: "msg_1", type: "message", role: "assistant", status: "in_progress", content: [] };
  const spoken = { ...message, status: "completed", content: [{ type: "output_text", text: "hi", annotations: [] }] };
  const called = {
    id: "fc_1",
    type: "function_call",
    call_id: "a",
    name: "read",
    arguments: "",
    status: "in_progress",
  };
  const over = { ...called, arguments: "{}", status: "completed" };
  const shell = { id: "resp_1", object: "response", status: "in_progress" };
  const unnumbered = [
    event("response.created", { response: shell }),
    event("response.output_item.added", { item: message }),
    event("response.content_part.added", { item_id: "msg_1", part: { type: "output_text", text: "" } }),
    event("response.output_text.delta", { item_id: "msg_1", delta: "hi" }),
    event("response.output_text.done", { item_id: "msg_1", text: "hi" }),
    event("response.content_part.done", { item_id: "msg_1", part: spoken.content[0] }),
    event("response.output_item.added", { item: called }),
    event("response.function_call_arguments.delta", { item_id: "fc_1", delta: "{}" }),
    event("response.output_item.done", { item: spoken }),
    event("response.output_item.done", { item: over }),
    event("response.completed", { response: { ...shell, status: "completed", output: [spoken, over] } }),
  ];
  const through = (parts: readonly string[]): string => {
    const { stream } = new NumberedResponses();
    return parts.map((part) => stream.push(Buffer.from(part))?.toString() ?? "").join("");
  };

  it("is numbered where it is not, so that the SDK puts it together", async () => {
    const sent = through(unnumbered);
    assert.deepEqual(
      eventsOf(sent).map(({ output_index: item, content_index: part }) => [item, part]),
      [[], [0], [0, 0], [0, 0], [0, 0], [0, 0], [1], [1], [0], [1], []].map(([item, part]) => [item, part]),
    );
    const { output_text: text, output } = await read(sent).finalResponse();
    assert.deepEqual([text, output.length], ["hi", 2]);
    await assert.rejects(read(unnumbered.join("")).finalResponse(), "the SDK needs the numbers");
  });

  it("is passed as it came where its first event has its number, however it is split", () => {
    const numbered = event("response.created", { sequence_number: 0, response: shell }) + unnumbered.slice(1).join("");
    const lines = numbered.split(/(?<=\n)/);
    assert.equal(through([numbered]), numbered);
    assert.equal(through(lines), numbered);
    assert.equal(through([": x\n\n", ...lines]), `: x\n\n${numbered}`);
  });

  it("is also numbered line by line, with comments between, and its failure has the next number", () => {
    const { stream } = new NumberedResponses();
    const lines = [
      ...unnumbered
        .join("")
        .split(/(?<=\n)/)
        .slice(0, 12),
      ": x\n\n",
    ];
    const sent = lines.map((line) => stream.push(Buffer.from(line))?.toString() ?? "").join("");
    const failed = stream.fail(new ApiError("dispatch.upstream_failed"));
    assert.equal(eventsOf(sent + (failed ?? "")).at(-1)?.["type"], "error");
  });
});
