import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { speechRequest } from "../../../src/gateway/audio/speech.ts";
import { KeptItems } from "../../../src/gateway/protocols/kept-items.ts";
import { MessagesTranslation } from "../../../src/gateway/protocols/messages.ts";
import { RerankTranslation } from "../../../src/gateway/protocols/rerank.ts";
import { NumberedResponses } from "../../../src/gateway/protocols/responses-numbering.ts";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { ShortVectors } from "../../../src/gateway/protocols/short-vectors.ts";
import { EventStream } from "../../../src/gateway/relay/event-stream.ts";
import { ModelRename } from "../../../src/gateway/relay/rename.ts";
import { applyRules } from "../../../src/gateway/routing/request-rules.ts";
import { encode, failureOf, nothingKept, refusedAt } from "./bodies.ts";

/** No double holds these. */
const many = "1310456789012345678";
const huge = "-1e400";
const open = `{"id":${many},"deep":[{"at":${huge}}],"own":{"rawJSON":"7"},"__proto__":{"a":${many}}}`;
const hello = '[{"role":"user","content":"hello"}]';

const messages = (fields: string): string =>
  new MessagesTranslation().request(encode(`{"model":"primary","max_tokens":9,${fields}}`)).toString();
const responses = (fields: string, kept = nothingKept): string =>
  new ResponsesTranslation(kept).request(encode(`{"model":"primary",${fields}}`)).toString();
const holds = (body: string | Buffer, part: string): void => {
  assert.ok(body.toString().includes(part), `${body.toString()} has not ${part}`);
};

describe("a number that a double cannot hold reaches the engine as the client wrote it", () => {
  it("within the input of an earlier call of /v1/messages", () => {
    const call = `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":${open}}]}`;
    holds(messages(`"messages":[${call}]`), `"arguments":${JSON.stringify(open)}`);
  });

  it("within a tool's schema of /v1/messages, and the answer's", () => {
    const schema = `{"maximum":${many},"minimum":${huge}}`;
    const format = `"output_config":{"format":{"type":"json_schema","schema":${schema}}}`;
    const chat = messages(`"messages":${hello},"tools":[{"name":"f","input_schema":${schema}}],${format}`);
    holds(chat, `"parameters":${schema}`);
    holds(chat, `"schema":${schema}`);
  });

  it("within fields of /v1/responses that it does not know, its tools and its form", () => {
    const tool = `{"type":"function","name":"f","parameters":{"maximum":${many}}}`;
    const text = `{"format":{"type":"json_schema","name":"n","schema":{"maximum":${many}}}}`;
    const chat = responses(`"input":"hello","seed":${many},"more":${open},"tools":[${tool}],"text":${text}`);
    for (const part of [`"seed":${many}`, `"more":${open}`, `"parameters":{"maximum":${many}}`]) holds(chat, part);
    holds(chat, `"schema":{"maximum":${many}}`);
  });

  it("past a slot's rules", () => {
    const body = encode(`{"model":"m","seed":${many},"more":${open},"top_k":1}`);
    assert.equal(
      applyRules(body, { set: { a: 1 }, strip: ["top_k"] }).toString(),
      `{"model":"m","seed":${many},"more":${open},"a":1}`,
    );
  });

  it("in embeddings, ranking and speech", () => {
    const vectors = encode(`{"model":"m","input":"a","dimensions":2,"seed":${many}}`);
    assert.equal(new ShortVectors().request(vectors).toString(), `{"model":"m","input":"a","seed":${many}}`);
    holds(new RerankTranslation().request(encode(`{"query":"a","documents":["b"],"seed":${many}}`)), `"seed":${many}`);
    holds(speechRequest(encode(`{"input":"a","voice":"b","seed":${many}}`)), `"seed":${many}`);
  });
});

describe("a number that a double cannot hold reaches the client as the engine wrote it", () => {
  const chat = (args: string): string =>
    JSON.stringify({ choices: [{ message: { tool_calls: [{ id: "c", function: { name: "f", arguments: args } }] } }] });
  const answered = (args: string): string => {
    const translation = new MessagesTranslation();
    translation.request(encode(`{"model":"primary","max_tokens":9,"messages":${hello}}`));
    return translation.answer(encode(chat(args))).toString();
  };

  it("within the input of a call of /v1/messages", () => holds(answered(open), `"input":${open}`));

  for (const args of [`[${many}]`, "[]", many, ` ${many}`]) {
    it(`takes ${args.slice(0, 24)} for no input of a call`, () => {
      assert.equal(failureOf(() => answered(args)).code, "dispatch.upstream_failed");
    });
  }

  it("within the settings that /v1/responses repeats", () => {
    const translation = new ResponsesTranslation(nothingKept);
    const tool = `{"type":"function","name":"f","parameters":{"maximum":${many}}}`;
    translation.request(encode(`{"model":"primary","input":"hello","tools":[${tool}]}`));
    holds(translation.answer(encode({ choices: [{ message: { content: "a" } }] })), `"tools":[${tool}]`);
  });

  it("within an event that gets its number here", () => {
    const event = `{"type":"response.created","response":{"tools":[{"maximum":${many}}]}}`;
    holds(new NumberedResponses().stream.push(encode(`data: ${event}\n\n`)) ?? "", `"maximum":${many}`);
  });

  it("within the chunk with the role, which begins every chat", () => {
    const events = new EventStream({ rename: new ModelRename("engine", "primary"), isChat: true });
    const chunk = `{"created":${many},"choices":[{"index":0,"delta":{"content":"a"}}]}`;
    holds(events.push(encode(`data: ${chunk}\n\n`)) ?? "", `{"created":${many},"choices":[{"index":0,"delta":{"role"`);
  });

  it("within a call that was kept, and is named again", () => {
    using kept = new KeptItems({
      budget: { add: () => true, give: () => undefined },
      limitBytes: 1024 ** 2,
      lifeMs: 60_000,
    });
    const own = { keep: (item: object) => kept.keep("a", item), find: (id: string) => kept.find("a", id) };
    const translation = new ResponsesTranslation(own);
    translation.request(encode('{"model":"primary","input":"hello"}'));
    const id = /"(fc_\w+)"/.exec(translation.answer(encode(chat(open))).toString())?.[1];
    holds(responses(`"input":[{"type":"item_reference","id":"${id}"}]`, own), `"arguments":${JSON.stringify(open)}`);
  });
});

describe("a number that a double cannot hold in a field of the protocol", () => {
  const inMessages = (fields: string) => () => messages(`"messages":${hello},${fields}`);
  const inResponses = (fields: string) => () => responses(`"input":"hello",${fields}`);
  const refused: readonly (readonly [field: string, act: () => unknown])[] = [
    ["max_tokens", inMessages(`"max_tokens":1e400`)],
    ["temperature", inMessages(`"temperature":${huge}`)],
    ["temperature", inMessages(`"temperature":${many}`)],
    ["stop_sequences.0", inMessages(`"stop_sequences":[${many}]`)],
    ["thinking", inMessages(`"thinking":${many}`)],
    ["tools.0.input_schema", inMessages(`"tools":[{"name":"f","input_schema":${many}}]`)],
    ["messages.0", () => messages(`"messages":[${many}]`)],
    ["max_output_tokens", inResponses(`"max_output_tokens":${many}`)],
    ["metadata.a", inResponses(`"metadata":{"a":${many}}`)],
    ["tool_choice", inResponses(`"tool_choice":${many}`)],
    ["tools.0.parameters", inResponses(`"tools":[{"type":"function","name":"f","parameters":${many}}]`)],
    ["input.0", () => responses(`"input":[${many}]`)],
    ["dimensions", () => new ShortVectors().request(encode(`{"input":"a","dimensions":${many}}`))],
    ["top_n", () => new RerankTranslation().request(encode(`{"query":"a","documents":["b"],"top_n":${many}}`))],
    ["documents.0", () => new RerankTranslation().request(encode(`{"query":"a","documents":[${many}]}`))],
    ["speed", () => speechRequest(encode(`{"input":"a","voice":"b","speed":${many}}`))],
  ];
  for (const [field, act] of refused)
    it(`is refused: ${field}`, () => {
      assert.doesNotMatch(refusedAt(field, act).message, /received object|rawJSON/);
    });

  for (const body of [many, ` ${many}`, `[${many}]`]) {
    it(`is no body: ${body}`, () => {
      for (const act of [
        () => new MessagesTranslation().request(encode(body)),
        () => new ShortVectors().request(encode(body)),
        () => applyRules(encode(body), { set: { a: 1 }, strip: [] }),
      ])
        assert.equal(failureOf(act).code, "dispatch.invalid_request");
    });
  }

  it("does not get a deep body past a slot's rules", () => {
    const body = encode(`{"a":${"[".repeat(20_000)}${many}${"]".repeat(20_000)}}`);
    assert.equal(failureOf(() => applyRules(body, { set: {}, strip: ["b"] })).code, "dispatch.invalid_request");
  });
});
