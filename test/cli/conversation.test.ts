import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { Client } from "../../src/cli/client.ts";
import { converse } from "../../src/cli/conversation.ts";
import { isRecord } from "../../src/lib/record.ts";
import { apiDouble, failure, stream, type Answer } from "../support/api-double.ts";
import { until } from "../support/until.ts";

const delta = (content: string): string => JSON.stringify({ choices: [{ delta: { content } }] });
const route = "/v1/chat/completions";

/** A person at a terminal who talks with `primary`. */
function sitDown(server: string) {
  const input = new PassThrough();
  const output = new PassThrough();
  let shown = "";
  output.setEncoding("utf8").on("data", (text: string) => (shown += text));
  const client = new Client({ server, token: undefined });
  const ended = converse({ client, model: "primary", maxTokens: undefined, input, output, screen: output });
  const type = (text: string): void => void input.write(text);
  const text = (): string => stripVTControlCharacters(shown);
  const sees = (what: string): Promise<unknown> => until(`"${what}" is seen`, () => text().includes(what));
  return { ended, type, sees, text };
}

const messagesOf = (body: unknown): unknown => (isRecord(body) ? body["messages"] : undefined);
const said = (bodies: readonly string[]): unknown[] =>
  bodies.filter((body) => body !== "").map((body) => messagesOf(JSON.parse(body)));

describe("a conversation", () => {
  it("sends the conversation so far with every message, until the person leaves", async () => {
    await using api = await apiDouble({ [route]: stream(delta("Hey"), delta(" you."), "[DONE]") });
    const person = sitDown(api.url);
    person.type("hello\r");
    await person.sees("Hey you.");
    api.answer(route, stream(delta("Twice."), "[DONE]"));
    person.type("again\r");
    await person.sees("Twice.");
    person.type("\u0004");
    await person.ended;
    assert.deepEqual(said(api.bodies), [
      [{ role: "user", content: "hello" }],
      [
        { role: "user", content: "hello" },
        { role: "assistant", content: "Hey you." },
        { role: "user", content: "again" },
      ],
    ]);
  });

  it("stops an answer at Ctrl-C, and leaves at the next", async () => {
    let isCut = false;
    const never: Answer = (response) => {
      response.once("close", () => (isCut = true));
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${delta("Once upon")}\n\n`);
    };
    await using api = await apiDouble({ [route]: never });
    const person = sitDown(api.url);
    person.type("a story\r");
    await person.sees("Once upon");
    person.type("\u0003");
    await until("the service is told", () => isCut);
    await until("the prompt is back", () => person.text().split("primary> ").length > 2);
    person.type("\u0003");
    await person.ended;
  });

  it("continues with text that was typed during an answer", async () => {
    let answer: ServerResponse | undefined;
    const slow: Answer = (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${delta("Once upon")}\n\n`);
      answer = response;
    };
    await using api = await apiDouble({ [route]: slow });
    const person = sitDown(api.url);
    person.type("a story\r");
    await person.sees("Once upon");
    person.type("and then?\r/help\r/bye\r");
    api.answer(route, stream(delta("The end."), "[DONE]"));
    answer?.end("data: [DONE]\n\n");
    await person.sees("The end.");
    await person.sees("Ctrl-C stops an answer.");
    await person.ended;
    assert.match(api.bodies.at(-1) ?? "", /"role":"user","content":"and then\?"/);
  });

  it("says how to continue where the context is full", async () => {
    const full = "request (2060 tokens) exceeds the available context size (2048 tokens), try increasing it";
    await using api = await apiDouble({ [route]: stream(delta("Hi."), "[DONE]") });
    const person = sitDown(api.url);
    person.type("hello\r");
    await person.sees("Hi.");
    api.answer(route, (response) => {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify(failure("dispatch.rejected", full)));
    });
    await until("the prompt is back", () => person.text().split("primary> ").length > 2);
    person.type("more\r");
    await person.sees(`${full}; /new starts an empty conversation`);
    person.type("/clear\r");
    api.answer(route, stream(delta("Anew."), "[DONE]"));
    person.type("again\r");
    await person.sees("Anew.");
    assert.match(api.bodies.at(-1) ?? "", /"messages":\[\{"role":"user","content":"again"\}\]/);
    person.type("\u0004");
    await person.ended;
    assert.match(person.text(), /\n$/);
  });

  it("continues with another model, and after a failure", async () => {
    await using api = await apiDouble({
      "/v1/models": { object: "list", data: [{ id: "primary" }, { id: "coder" }] },
      [route]: (response) => {
        response.writeHead(503, { "content-type": "application/json" });
        response.end(JSON.stringify(failure("slot.not_ready", "slot primary is not ready: starting")));
      },
    });
    const person = sitDown(api.url);
    person.type("hello\r");
    await person.sees("slot primary is not ready: starting");
    person.type("/model codex\r");
    await person.sees("there is no slot or model called codex");
    person.type("/model coder\r");
    await person.sees("coder> ");
    api.answer(route, stream(delta("Hi."), "[DONE]"));
    person.type("hello\r");
    await person.sees("Hi.");
    person.type("/exit\r");
    await person.ended;
    assert.match(api.bodies.at(-1) ?? "", /"model":"coder".*"messages":\[\{"role":"user","content":"hello"\}\]/);
  });
});
