import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { CommandError } from "../../src/cli/client.ts";
import { events } from "../../src/cli/events.ts";
import { failure, stream, type Answer } from "../support/api-double.ts";
import { done, failed, misused, primary, refused, told } from "./fixture.ts";

const delta = (content: string): string => JSON.stringify({ choices: [{ delta: { content } }] });
const last = (content: string, reason: string | null): string =>
  JSON.stringify({ choices: [{ delta: { content }, finish_reason: reason }] });

/** Answers with this stream of events, and ends it unless `end` does. */
const sent =
  (text: string, end = (response: ServerResponse): void => void response.end()): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(text, () => end(response));
  };

describe("berth chat", () => {
  const chat = (answer: Answer, line: string | readonly string[] = "chat primary hi", typed = "") =>
    told({ "/v1/chat/completions": answer }, line, { typed });
  const cut =
    "unreachable: the answer is cut: URL ended the stream within it\n" +
    "try again: the service, or a proxy before it, may have been stopped or restarted\n";
  const crlf = `: waiting\n\ndata: ${delta("Hé")}\n\ndata: ${delta("y")}\n\ndata: [DONE]\n\n`.replaceAll("\n", "\r\n");
  const tight = `data:${delta("Hé")}\n\ndata:${delta("y")}\n\ndata:[DONE]\n\n`;

  for (const [name, answer, ended] of [
    [
      "prints the reason of a wait beside the answer",
      sent(
        ": waiting slot=primary state=pulling progress=41%\n\n: waiting slot=primary state=starting\n\n" +
          ': waiting slot=primary state=ready doing="draining a for b"\n\n' +
          `data: ${delta("Hey")}\n\ndata: [DONE]\n\n`,
      ),
      done("Hey\n", "primary: pulling 41%\nprimary: starting\nprimary: draining a for b\n"),
    ],
    ["reads a stream in CRLF", sent(crlf), done("Héy\n", "waiting\n")],
    ["reads a stream without the blank after a colon", sent(tight), done("Héy\n")],
    [
      "reads an event of several lines",
      sent(`data: {"choices":\ndata: [{"delta":{"content":"Hey"}}]}\n\ndata: [DONE]\n\n`),
      done("Hey\n"),
    ],
    [
      "prints the answer of an engine that sends no stream",
      { choices: [{ message: { role: "assistant", content: "Hey" } }] },
      done("Hey\n"),
    ],
    [
      "takes a finish reason for the end, where no [DONE] comes",
      stream(delta("Hey"), last("", "length")),
      done("Hey\n"),
    ],
    [
      "stops an answer that does not end, and says so",
      sent(`data: ${delta("x")}\n\n`.repeat(5000), () => undefined),
      done(`${"x".repeat(4096)}\n`, "stopped after about 4096 tokens; --max-tokens sets another limit\n"),
    ],
    [
      "fails when the stream ends in an error",
      stream(delta("He"), JSON.stringify(failure("dispatch.upstream_failed", "the engine went away"))),
      failed("dispatch.upstream_failed: the engine went away\nsee `berth slot logs primary`\n", "He"),
    ],
    ["fails when the stream ends within the answer", stream(delta("He"), last("y", null)), failed(cut, "Hey")],
    ["fails when the stream ends before the answer", stream(), failed(cut)],
    [
      "fails when the connection breaks",
      sent(`data: ${delta("He")}\n\n`, (response) => void response.destroy()),
      failed(
        "unreachable: URL broke the connection before its answer was whole\n" +
          "try again: it may have been stopped or restarted\n",
        "He",
      ),
    ],
    [
      "names the command that says more of a provider that failed, and no log of a slot",
      refused(502, "dispatch.upstream_unavailable", "upstream acme cannot be reached", { upstream: "acme" }),
      failed(
        "dispatch.upstream_unavailable: upstream acme cannot be reached\n" +
          "see `berth upstream check acme`, or try again later\n",
      ),
    ],
  ] as const)
    it(name, async () => assert.deepEqual((await chat(answer)).ended, ended));

  it("sends the message, and prints the pieces of the answer", async () => {
    const role = JSON.stringify({ choices: [{ delta: { role: "assistant", content: "" } }] });
    const answer = stream(role, delta("Hé"), delta("y!"), "[DONE]");
    const { ended, bodies } = await chat(answer, "chat primary hi --max-tokens 8");
    assert.deepEqual(ended, done("Héy!\n"));
    assert.deepEqual(
      bodies.map((body): unknown => JSON.parse(body)),
      [{ model: "primary", stream: true, messages: [{ role: "user", content: "hi" }], max_tokens: 8 }],
    );
  });

  it("sends piped text, and sends no request where the text is empty", async () => {
    const { bodies } = await chat(stream(delta("Hey"), "[DONE]"), "chat primary", "a\nb\n");
    assert.match(bodies[0] ?? "", /"content":"a\\nb\\n"/);
    const empty = await chat({}, "chat primary", "\n");
    const why = "usage: standard input is empty\npipe a message in, or name it: berth chat SLOT MESSAGE\n";
    assert.deepEqual([empty.ended, empty.asked], [misused(why), []]);
    const blank = await chat({}, ["chat", "primary", " "]);
    assert.deepEqual([blank.code, blank.asked], [2, []]);
  });

  it("reads the answer to its end, so that the gateway does not count the client as gone", async () => {
    const seen: boolean[] = [];
    const { code } = await chat(
      sent(`data: ${delta("Hey")}\n\ndata: [DONE]\n\n`, (response) => {
        response.once("close", () => seen.push(response.writableFinished));
        setImmediate(() => setImmediate(() => response.end(": bye\n\n")));
      }),
    );
    assert.deepEqual([code, seen], [0, [true]]);
  });
});

it("an event stream is read wherever it is cut", async () => {
  const bytes = Buffer.from(`: waiting\n\ndata: ${delta("Hé")}\r\n\r\ndata:${delta("y")}\n\ndata: [DONE]\n\n`);
  for (const size of [1, 7, bytes.length]) {
    const cut = async function* (): AsyncIterable<Uint8Array> {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    };
    const read = (await Array.fromAsync(events(cut()))).map(({ data }) => data);
    assert.deepEqual(read, [delta("Hé"), delta("y"), "[DONE]"]);
  }
});

it("an event without an end is not kept for ever", async () => {
  let pieces = 0;
  const endless = async function* (): AsyncIterable<Uint8Array> {
    for (yield Buffer.from("data: "); pieces < 100; pieces++) yield Buffer.alloc(1_000_000, "x");
  };
  await assert.rejects(Array.fromAsync(events(endless())), CommandError);
  assert.ok(pieces < 20, `${pieces} MB`);
});

describe("berth slot logs", () => {
  const logs = "/api/slots/primary/logs";
  const line = { time: "2026-11-21T07:00:00.000Z", stream: "stdout", line: "one" };
  const followed = (...lines: readonly object[]): Answer => stream(...lines.map((each) => JSON.stringify(each)));
  const plain =
    (text: string): Answer =>
    (response) =>
      void response.end(text);
  const off = { name: "cold", state: "offline", last_load_seconds: null, transitions: [] };

  for (const [name, words, answers, ended] of [
    ["the last lines as they are", "primary --tail 2", { [`${logs}?tail=2`]: plain("one\ntwo\n") }, done("one\ntwo\n")],
    [
      "the times of lines, too",
      "primary --tail 2 -t",
      { [`${logs}?tail=2&timestamps=1`]: plain(`${line.time} one\n`) },
      done(`${line.time} one\n`),
    ],
    [
      "lines as they come, of each process",
      "primary -f",
      { [`${logs}?tail=200&follow=1`]: followed(line, { ...line, line: "two", process: "main-1" }) },
      done("one\nmain-1 | two\n"),
    ],
    [
      "lines as they come, with their times",
      "primary -f -t",
      { [`${logs}?tail=200&follow=1`]: followed(line) },
      done(`${line.time} one\n`),
    ],
    [
      "why a slot that was never started has no log",
      "cold",
      { "/api/slots/cold/logs?tail=200": plain(""), "/api/slots/cold": off },
      done("", "cold has never been started, so that there is no log; `berth slot load cold` starts it\n"),
    ],
    [
      "why a slot that is not configured has no log",
      "stt",
      { "/api/slots/stt/logs?tail=200": plain(""), "/api/slots/stt": { ...off, name: "stt", enabled: false } },
      done(
        "",
        "stt has never been started, so that there is no log; no manifest configures it: `berth slot create stt` does\n",
      ),
    ],
    [
      "that a slot has printed nothing",
      "primary",
      { [`${logs}?tail=200`]: plain(""), "/api/slots/primary": primary },
      done("", "primary has printed nothing, or its log was removed\n"),
    ],
  ] as const)
    it(`prints ${name}`, async () => assert.deepEqual((await told(answers, `slot logs ${words}`)).ended, ended));

  it("fails where the log cannot be read any more", async () => {
    const event = 'event: error\ndata: {"message":"the log of primary cannot be read: it is gone"}\n\n';
    const { ended } = await told({ [`${logs}?tail=200&follow=1`]: sent(event) }, "slot logs primary -f");
    const why = "dispatch.upstream_unavailable: the log of primary cannot be read: it is gone\n";
    assert.deepEqual(ended, failed(`${why}see \`berth slot logs NAME\`, or try again later\n`));
  });
});
