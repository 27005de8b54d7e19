import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { Client } from "../../src/cli/client.ts";
import { converse } from "../../src/cli/conversation.ts";
import { isRecord } from "../../src/lib/record.ts";
import { apiDouble, stream, type Answer } from "../support/api-double.ts";
import { until } from "../support/until.ts";
import { listOf, refused } from "./fixture.ts";

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
  const text = (): string => stripVTControlCharacters(shown);
  const type = (typed: string): void => void input.write(typed);
  const sees = (what: string, times = 1): Promise<unknown> =>
    until(`"${what}" is seen`, () => text().split(what).length > times);
  return {
    type,
    sees,
    /** Types a line, and waits for that text. */
    async say(line: string, seen: string) {
      type(`${line}\r`);
      await sees(seen);
    },
    async leaves(typed: string) {
      type(typed);
      await ended;
    },
    ended,
    text,
  };
}

const says = (...pieces: readonly string[]): Answer => stream(...pieces.map(delta), "[DONE]");
/** Begins an answer, and gives it to `take`. */
const begun =
  (take: (response: ServerResponse) => void): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${delta("Once upon")}\n\n`);
    take(response);
  };
const messagesOf = (body: unknown): unknown => (isRecord(body) ? body["messages"] : undefined);
const prompt = "primary> ";

describe("a conversation", () => {
  it("sends the conversation so far with every message, until the person leaves", async () => {
    await using api = await apiDouble({ [route]: says("Hey", " you.") });
    const person = sitDown(api.url);
    await person.say("hello", "Hey you.");
    api.answer(route, says("Twice."));
    await person.say("again", "Twice.");
    await person.leaves("\u0004");
    const hello = { role: "user", content: "hello" };
    const answer = { role: "assistant", content: "Hey you." };
    assert.deepEqual(
      api.bodies.map((body) => messagesOf(JSON.parse(body))),
      [[hello], [hello, answer, { role: "user", content: "again" }]],
    );
  });

  it("stops an answer at Ctrl-C, and leaves at the next", async () => {
    let isCut = false;
    const never = begun((response) => response.once("close", () => (isCut = true)));
    await using api = await apiDouble({ [route]: never });
    const person = sitDown(api.url);
    await person.say("a story", "Once upon");
    person.type("\u0003");
    await until("the service is told", () => isCut);
    await person.sees(prompt, 2);
    await person.leaves("\u0003");
  });

  it("continues with text that was typed during an answer", async () => {
    let answer: ServerResponse | undefined;
    await using api = await apiDouble({ [route]: begun((response) => (answer = response)) });
    const person = sitDown(api.url);
    await person.say("a story", "Once upon");
    person.type("and then?\r/help\r/bye\r");
    api.answer(route, says("The end."));
    answer?.end("data: [DONE]\n\n");
    await person.sees("The end.");
    await person.sees("Ctrl-C stops an answer.");
    await person.ended;
    assert.match(api.bodies.at(-1) ?? "", /"role":"user","content":"and then\?"/);
  });

  it("says how to continue where the context is full", async () => {
    const full = "request (2060 tokens) exceeds the available context size (2048 tokens), try increasing it";
    await using api = await apiDouble({ [route]: says("Hi.") });
    const person = sitDown(api.url);
    await person.say("hello", "Hi.");
    api.answer(route, refused(400, "dispatch.rejected", full));
    await person.sees(prompt, 2);
    await person.say("more", `${full}; /new starts an empty conversation`);
    person.type("/clear\r");
    api.answer(route, says("Anew."));
    await person.say("again", "Anew.");
    assert.match(api.bodies.at(-1) ?? "", /"messages":\[\{"role":"user","content":"again"\}\]/);
    await person.leaves("\u0004");
    assert.match(person.text(), /\n$/);
  });

  it("continues with another model, and after a failure", async () => {
    await using api = await apiDouble({
      "/v1/models": listOf({ id: "primary" }, { id: "coder" }),
      [route]: refused(503, "slot.not_ready", "slot primary is not ready: starting"),
    });
    const person = sitDown(api.url);
    await person.say("hello", "slot primary is not ready: starting");
    await person.say("/model codex", "there is no slot or model called codex");
    await person.say("/model coder", "coder> ");
    api.answer(route, says("Hi."));
    await person.say("hello", "Hi.");
    await person.leaves("/exit\r");
    assert.match(api.bodies.at(-1) ?? "", /"model":"coder".*"messages":\[\{"role":"user","content":"hello"\}\]/);
  });
});
