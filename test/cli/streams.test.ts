import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { describe, it } from "node:test";
import { events } from "../../src/cli/slots.ts";
import { apiDouble, failure, stream } from "../support/api-double.ts";
import { command } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { until } from "../support/until.ts";
import { primary } from "./fixture.ts";

const delta = (content: string): string => JSON.stringify({ choices: [{ delta: { content } }] });

describe("berth chat", () => {
  it("prints the pieces of the answer", async () => {
    const pieces = [
      JSON.stringify({ choices: [{ delta: { role: "assistant", content: "" } }] }),
      delta("Hé"),
      delta("y!"),
    ];
    await using api = await apiDouble({ "/v1/chat/completions": stream(...pieces, "[DONE]") });
    const ended = await runBerth(["chat", "primary", "hi", "--max-tokens", "8"], { SVC_URL: api.url });
    assert.deepEqual(ended, { code: 0, stdout: "Héy!\n", stderr: "" });
    assert.deepEqual(
      api.bodies.map((body): unknown => JSON.parse(body)),
      [{ model: "primary", stream: true, messages: [{ role: "user", content: "hi" }], max_tokens: 8 }],
    );
  });

  it("prints the reason of a wait beside the answer", async () => {
    await using api = await apiDouble({
      "/v1/chat/completions": (response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(": waiting slot=primary state=pulling progress=41%\n\n");
        response.write(": waiting slot=primary state=starting\n\n");
        response.end(`data: ${delta("Hey")}\n\ndata: [DONE]\n\n`);
      },
    });
    const ended = await runBerth(["chat", "primary", "hi"], { SVC_URL: api.url });
    assert.deepEqual(ended, { code: 0, stdout: "Hey\n", stderr: "primary: pulling 41%\nprimary: starting\n" });
  });

  for (const [what, lines] of [
    [
      "in CRLF",
      [": waiting", "", `data: ${delta("Hé")}`, "", `data: ${delta("y")}`, "", "data: [DONE]", "", ""].join("\r\n"),
    ],
    ["without the blank after a colon", `data:${delta("Hé")}\n\ndata:${delta("y")}\n\ndata:[DONE]\n\n`],
  ] as const)
    it(`reads an engine's stream ${what}, wherever it is cut`, async () => {
      const sent = Buffer.from(lines);
      for (const size of [1, 7, sent.length]) {
        const cut = async function* (): AsyncIterable<Uint8Array> {
          for (let at = 0; at < sent.length; at += size) yield sent.subarray(at, at + size);
        };
        assert.deepEqual(await Array.fromAsync(events(cut())), [delta("Hé"), delta("y"), "[DONE]"]);
      }
      await using api = await apiDouble({
        "/v1/chat/completions": (response) =>
          void response.writeHead(200, { "content-type": "text/event-stream" }).end(lines),
      });
      assert.equal((await runBerth(["chat", "primary", "hi"], { SVC_URL: api.url })).stdout, "Héy\n");
    });

  it("sends piped text", async () => {
    await using api = await apiDouble({ "/v1/chat/completions": stream(delta("Hey"), "[DONE]") });
    const child = spawn(command, ["chat", "primary"], { env: { PATH: process.env["PATH"], SVC_URL: api.url } });
    child.stdin.end("a\nb\n");
    assert.equal(await new Promise((resolve) => child.once("exit", resolve)), 0);
    assert.match(api.bodies[0] ?? "", /"content":"a\\nb\\n"/);
  });

  it("reads the answer to its end, so that the gateway does not count the client as gone", async () => {
    const seen: boolean[] = [];
    await using api = await apiDouble({
      "/v1/chat/completions": (response) => {
        response.once("close", () => seen.push(response.writableFinished));
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(`data: ${delta("Hey")}\n\ndata: [DONE]\n\n`);
        setImmediate(() => setImmediate(() => response.end(": bye\n\n")));
      },
    });
    const { code } = await runBerth(["chat", "primary", "hi"], { SVC_URL: api.url });
    assert.deepEqual([code, seen], [0, [true]]);
  });

  it("prints the answer of an engine that sends no stream", async () => {
    const answer = { choices: [{ message: { role: "assistant", content: "Hey" } }] };
    await using api = await apiDouble({ "/v1/chat/completions": answer });
    const ended = await runBerth(["chat", "primary", "hi"], { SVC_URL: api.url });
    assert.deepEqual(ended, { code: 0, stdout: "Hey\n", stderr: "" });
  });

  it("sends no request for an empty message", async () => {
    await using api = await apiDouble({});
    const child = spawn(command, ["chat", "primary"], {
      env: { PATH: process.env["PATH"], SVC_URL: api.url },
      stdio: ["pipe", "ignore", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.stdin.end("\n");
    assert.equal(await new Promise((resolve) => child.once("close", resolve)), 1);
    assert.equal(stderr, "usage: standard input is empty\npipe a message in, or name it: berth chat SLOT MESSAGE\n");
    assert.equal((await runBerth(["chat", "primary", " "], { SVC_URL: api.url })).code, 2);
    assert.deepEqual(api.asked, []);
  });

  it("has a remedy of its own for an empty manifest", async () => {
    const child = spawn(command, ["slot", "create", "coder", "-f", "-"], {
      env: { PATH: process.env["PATH"] },
      stdio: ["pipe", "ignore", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.stdin.end();
    assert.equal(await new Promise((resolve) => child.once("close", resolve)), 1);
    assert.equal(stderr, "usage: standard input is empty\npipe a manifest in, or name its file\n");
  });

  it("fails when the stream ends in an error", async () => {
    const error = JSON.stringify(failure("dispatch.upstream_failed", "the engine went away"));
    await using api = await apiDouble({ "/v1/chat/completions": stream(delta("He"), error) });
    const ended = await runBerth(["chat", "primary", "hi"], { SVC_URL: api.url });
    const stderr = "dispatch.upstream_failed: the engine went away\nsee `berth slot logs primary`\n";
    assert.deepEqual(ended, { code: 1, stdout: "He", stderr });
  });

  it("fails when the stream ends within the answer, and prints what has come", async () => {
    const unfinished = JSON.stringify({ choices: [{ delta: { content: "y" }, finish_reason: null }] });
    for (const events of [[delta("He"), unfinished], []]) {
      await using api = await apiDouble({ "/v1/chat/completions": stream(...events) });
      const ended = await runBerth(["chat", "primary", "hi"], { SVC_URL: api.url });
      const next = "try again: the service, or a proxy before it, may have been stopped or restarted";
      const stderr = `unreachable: the answer is cut: ${api.url} ended the stream within it\n${next}\n`;
      assert.deepEqual(ended, { code: 1, stdout: events.length === 0 ? "" : "Hey", stderr });
    }
  });

  it("takes a finish reason for the end, where an engine sends no [DONE]", async () => {
    const last = JSON.stringify({ choices: [{ delta: {}, finish_reason: "length" }] });
    await using api = await apiDouble({ "/v1/chat/completions": stream(delta("Hey"), last) });
    const ended = await runBerth(["chat", "primary", "hi"], { SVC_URL: api.url });
    assert.deepEqual(ended, { code: 0, stdout: "Hey\n", stderr: "" });
  });

  it("fails when the connection breaks", async () => {
    await using api = await apiDouble({
      "/v1/chat/completions": (response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(`data: ${delta("He")}\n\n`, () => response.destroy());
      },
    });
    const ended = await runBerth(["chat", "primary", "hi"], { SVC_URL: api.url });
    const next = "try again: it may have been stopped or restarted";
    const stderr = `unreachable: ${api.url} broke the connection before its answer was whole\n${next}\n`;
    assert.deepEqual(ended, { code: 1, stdout: "He", stderr });
  });
});

describe("berth slot logs", () => {
  it("prints the last lines as they are", async () => {
    await using api = await apiDouble({
      "/api/slots/primary/logs?tail=2": (response) => response.end("one\ntwo\n"),
    });
    const { stdout } = await runBerth(["slot", "logs", "primary", "--tail", "2"], { SVC_URL: api.url });
    assert.equal(stdout, "one\ntwo\n");
  });

  it("says why a slot that was never started has no log", async () => {
    await using api = await apiDouble({
      "/api/slots/cold/logs?tail=200": (response) => response.end(""),
      "/api/slots/cold": { ...primary, name: "cold", state: "offline", last_load_seconds: null, transitions: [] },
      "/api/slots/stt/logs?tail=200": (response) => response.end(""),
      "/api/slots/stt": { name: "stt", state: "offline", enabled: false, last_load_seconds: null, transitions: [] },
      "/api/slots/primary/logs?tail=200": (response) => response.end(""),
      "/api/slots/primary": primary,
    });
    const logs = (slot: string) => runBerth(["slot", "logs", slot], { SVC_URL: api.url });
    assert.deepEqual(await logs("cold"), {
      code: 0,
      stdout: "",
      stderr: "cold has never been started, so that there is no log; `berth slot load cold` starts it\n",
    });
    assert.match((await logs("stt")).stderr, /no log; no manifest configures it: `berth slot create stt` does\n$/);
    assert.equal((await logs("primary")).stderr, "primary has printed nothing, or its log was removed\n");
  });

  it("prints the times of lines where they are asked for", async () => {
    const line = JSON.stringify({ time: "2026-11-21T07:00:00.000Z", stream: "stdout", line: "one" });
    await using api = await apiDouble({
      "/api/slots/primary/logs?tail=2&timestamps=1": (response) => response.end("2026-11-21T07:00:00.000Z one\n"),
      "/api/slots/primary/logs?tail=200&follow=1": stream(line),
    });
    for (const args of [["--tail", "2"], ["-f"]]) {
      const { stdout } = await runBerth(["slot", "logs", "primary", "-t", ...args], { SVC_URL: api.url });
      assert.equal(stdout, "2026-11-21T07:00:00.000Z one\n");
    }
  });

  it("prints lines as they come", async () => {
    const line = (text: string): string =>
      JSON.stringify({ time: "2026-11-21T07:00:00Z", stream: "stdout", line: text });
    await using api = await apiDouble({
      "/api/slots/primary/logs?tail=200&follow=1": stream(line("one"), line("two")),
    });
    assert.equal((await runBerth(["slot", "logs", "primary", "-f"], { SVC_URL: api.url })).stdout, "one\ntwo\n");
  });

  it("prints the process before a line of a slot with several", async () => {
    const line = JSON.stringify({ time: "2026-11-21T07:00:00Z", stream: "stdout", line: "one", process: "main-1" });
    await using api = await apiDouble({ "/api/slots/primary/logs?tail=200&follow=1": stream(line) });
    const { stdout } = await runBerth(["slot", "logs", "primary", "-f"], { SVC_URL: api.url });
    assert.equal(stdout, "main-1 | one\n");
  });
});

it("berth slot list --watch prints again when something changed, until it is interrupted", async () => {
  const list = (state: string, uptime = 1): object => ({
    object: "list",
    data: [{ ...primary, state, uptime_seconds: uptime }],
  });
  await using api = await apiDouble({ "/api/slots": list("starting") });
  const child = spawn(command, ["slot", "list", "--watch"], {
    env: { PATH: process.env["PATH"], SVC_URL: api.url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", (_, signal) => resolve(signal)));
  try {
    let shown = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => (shown += chunk));
    await until("the first table", () => shown.includes("starting"));
    api.answer("/api/slots", list("starting", 2));
    const asked = api.asked.length;
    await until("two more looks", () => api.asked.length > asked + 1);
    assert.equal(shown.split("NAME").length, 2, "nothing changed but the time: nothing is printed");
    api.answer("/api/slots", list("ready", 3));
    await until("the next table", () => shown.includes("ready"));
    assert.match(shown, /starting[^]* 1s\n\nNAME[^]*ready[^]* 3s\n/);
  } finally {
    child.kill("SIGINT");
  }
  assert.equal(await ended, "SIGINT");
});
