import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/cli/output.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { scriptedCall, writeToolCaller } from "../support/scripted-model.ts";
import { until } from "../support/until.ts";
import { ask, callPieces, choice, events, joined, list, post, record } from "../support/openai.ts";
import { keyOf, llamaServer, processOf, programOf, startWithLlamaServer } from "./fixture.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hello" }], max_tokens: 4, temperature: 0 };
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

test("a chat slot on the real llama-server", async (t) => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    // llama.cpp holds the whole turn to the grammar; a plain word before the answer would be tokenized otherwise there.
    const chatTemplate = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
    await writeTinyModel(join(modelsDir, "plain.gguf"), { chatTemplate });
    await writeToolCaller(join(modelsDir, "caller.gguf"));
    await writeFile(
      join(configDir, "slots/primary.toml"),
      '[model]\ndefault = "tiny"\ncontext_size = 512\nparallel = 2\n',
    );
    await writeFile(join(configDir, "slots/plain.toml"), '[model]\ndefault = "plain"\n');
    await writeFile(join(configDir, "slots/tools.toml"), '[model]\ndefault = "caller"\n');
  });
  const slot = await berth.state("primary", "ready");
  const { pid, endpoint } = processOf(slot);
  const headers = await keyOf(berth, "primary");

  await t.test("this version accepts the launch line", async () => {
    assert.equal(await programOf(pid), llamaServer());
    assert.deepEqual(slot["capabilities"], ["chat", "completions", "messages", "responses"]);
    const models = await (await fetch(`${endpoint}/v1/models`, { headers })).json();
    assert.equal(list(record(models)["data"])[0]?.["id"], "tiny");
  });

  await t.test("each request has the whole context of the manifest", async () => {
    const places = list(await (await fetch(`${endpoint}/slots`, { headers })).json());
    assert.deepEqual(
      places.map((place) => place["n_ctx"]),
      [512, 512],
    );
  });

  await t.test("a request needs the engine's key, and the key is no argument", async () => {
    for (const path of ["/slots", "/metrics", "/props"]) {
      assert.equal((await fetch(`${endpoint}${path}`)).status, 401);
    }
    assert.equal((await post(endpoint, "/v1/chat/completions", chat)).status, 401);
    const { authorization = "" } = headers;
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8");
    assert.equal(line.includes(authorization.slice(7)), false);
    assert.equal(
      (await readFile(join(berth.stateDir, "logs/primary.main.log"), "utf8")).includes(authorization.slice(7)),
      false,
    );
  });

  await t.test("grammars and schemas that would end the engine are refused, and the engine keeps running", async () => {
    const deep = `${'{"type":"array","items":'.repeat(60_000)}{}${"}".repeat(60_000)}`;
    const doubled = Array.from({ length: 40 }, (_, index) => `x${index} ::= x${index + 1} x${index + 1}`).join("\n");
    const fields = [
      `"grammar":"root ::= ${"(".repeat(100_000)}x${")".repeat(100_000)}"`,
      `"grammar":${JSON.stringify(`root ::= x0\n${doubled}\nx40 ::= "a"?`)}`,
      `"json_schema":${deep}`,
      `"json_schema":${'{"allOf":['.repeat(20_000)}{}${"]}".repeat(20_000)}`,
      `"json_schema":{"type":"string","pattern":"^(((((a?){0,99}){0,99}){0,99}){0,99})$"}`,
      `"chat_template_kwargs":{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`,
      `"chat_parser":${JSON.stringify('{"parsers":[{"type":"sequence","children":[0]}],"rules":{},"root":0}')}`,
      `"dry_multiplier":1,"dry_penalty_last_n":2000000000`,
    ];
    for (const field of fields) {
      const response = await fetch(new URL("/v1/chat/completions", berth.url), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: `${JSON.stringify(chat).slice(0, -1)},${field}}`,
      });
      assert.equal(response.status, 400);
      assert.match(await response.text(), /dispatch\.invalid_request/);
    }
    await ask(berth.url, "/v1/chat/completions", chat);
    assert.equal(processOf(await berth.slot("primary")).pid, pid);
  });

  await t.test("its answers may be read by no web page", async () => {
    const response = await fetch(`${endpoint}/v1/models`, { headers: { origin: "https://evil.example" } });
    assert.notEqual(response.headers.get("access-control-allow-origin"), "https://evil.example");
    assert.notEqual(response.headers.get("access-control-allow-origin"), "*");
  });

  await t.test("a chat", async () => {
    const body = await ask(berth.url, "/v1/chat/completions", chat);
    assert.equal(body["model"], "primary");
    assert.equal(body["object"], "chat.completion");
    assert.equal(choice(body)["finish_reason"], "length");
    assert.equal(record(body["usage"])["completion_tokens"], 4);
  });

  await t.test("a streamed chat begins with the role and ends with usage and [DONE]", async () => {
    const stream = { ...chat, stream: true, stream_options: { include_usage: true } };
    const { chunks, isDone } = await events(await post(berth.url, "/v1/chat/completions", stream));
    assert.ok(isDone);
    for (const chunk of chunks) assert.equal(chunk["model"], "primary");
    const [first] = chunks;
    assert.ok(first !== undefined);
    assert.equal(record(choice(first)["delta"])["role"], "assistant");
    assert.deepEqual(chunks.at(-1)?.["choices"], []);
    assert.equal(record(chunks.at(-1)?.["usage"])["completion_tokens"], 4);
    const finished = chunks.filter((chunk) => list(chunk["choices"])[0]?.["finish_reason"] === "length");
    assert.equal(finished.length, 1);
  });

  await t.test("a completion, whole and streamed", async () => {
    const asked = { model: "tiny", prompt: "the", max_tokens: 3, temperature: 0 };
    const body = await ask(berth.url, "/v1/completions", asked);
    assert.equal(body["object"], "text_completion");
    const whole = choice(body)["text"];
    const { chunks, isDone } = await events(await post(berth.url, "/v1/completions", { ...asked, stream: true }));
    assert.ok(isDone);
    assert.equal(chunks.map((chunk) => String(choice(chunk)["text"])).join(""), whole);
  });

  await t.test("an answer that keeps to a JSON schema", async () => {
    const schema = {
      type: "object",
      properties: { sky: { enum: ["blue", "grey"] }, isWarm: { type: "boolean" } },
      required: ["sky", "isWarm"],
      additionalProperties: false,
    };
    await berth.state("plain", "ready");
    const body = await ask(berth.url, "/v1/chat/completions", {
      ...chat,
      model: "plain",
      max_tokens: 100,
      response_format: { type: "json_schema", json_schema: { name: "sky", schema, strict: true } },
    });
    const answer: unknown = JSON.parse(String(record(choice(body)["message"])["content"]));
    assert.ok(isRecord(answer));
    assert.deepEqual(Object.keys(answer).toSorted(), ["isWarm", "sky"]);
    assert.ok(answer["sky"] === "blue" || answer["sky"] === "grey");
    assert.equal(typeof answer["isWarm"], "boolean");
  });

  await t.test("a model that calls a tool, whole and streamed", async () => {
    await berth.state("tools", "ready");
    const asked = { ...chat, model: "tools", max_tokens: 60, tools: [weather] };
    const body = await ask(berth.url, "/v1/chat/completions", asked);
    assert.equal(choice(body)["finish_reason"], "tool_calls");
    const [call] = list(record(choice(body)["message"])["tool_calls"]);
    assert.equal(record(call?.["function"])["name"], scriptedCall.name);
    assert.deepEqual(JSON.parse(String(record(call?.["function"])["arguments"])), scriptedCall.arguments);

    const { chunks, isDone } = await events(await post(berth.url, "/v1/chat/completions", { ...asked, stream: true }));
    assert.ok(isDone);
    const deltas = callPieces(chunks);
    assert.equal(joined(deltas, "name"), scriptedCall.name);
    assert.deepEqual(JSON.parse(joined(deltas, "arguments")), scriptedCall.arguments);
  });

  await t.test("an engine's refusal keeps its message and status", async () => {
    const response = await post(berth.url, "/v1/chat/completions", {
      ...chat,
      messages: [{ content: "hello" }],
    });
    const error = record(record(await response.json())["error"]);
    assert.equal(error["code"], "dispatch.rejected");
    assert.equal(response.status, 400);
    assert.match(String(error["message"]), /role/);
  });

  await t.test("a prompt beyond the context is refused, not cut in silence", async () => {
    const long = [{ role: "user", content: "the and of ".repeat(1000) }];
    const response = await post(berth.url, "/v1/chat/completions", { ...chat, messages: long });
    assert.equal(response.status, 400);
    assert.match(String(record(record(await response.json())["error"])["message"]), /context/);
  });

  await t.test("an engine's 500 for a mistake of the client is reported as 400, with its reason", async () => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,QUJD" } };
    for (const [asked, said] of [
      [{ messages: [{ role: "user", content: [image] }] }, /no projector/],
      [{ ...chat, tools: [{ type: "function" }] }, /^Failed to parse tools: Missing tool function/],
    ] as const) {
      const response = await post(berth.url, "/v1/chat/completions", { model: "primary", ...asked });
      const error = record(record(await response.json())["error"]);
      assert.deepEqual([response.status, error["code"]], [400, "dispatch.rejected"]);
      assert.match(String(error["message"]), said);
    }
  });

  await t.test("the protocols that are published are those the engine answers", async () => {
    const { readPublished } = await import("../support/published.ts");
    const published = await readPublished(berth.stateDir, "primary");
    assert.deepEqual(published?.status.protocols, ["input_tokens"]);
    const message = await ask(berth.url, "/v1/messages", chat);
    assert.equal(message["type"], "message");
    assert.equal(message["model"], "primary");
    const counted = await ask(berth.url, "/v1/messages/count_tokens", chat);
    assert.ok(Number(counted["input_tokens"]) > 0);
    const ofChat = await ask(berth.url, "/v1/chat/completions/input_tokens", chat);
    const asked = { model: "primary", input: chat.messages };
    const ofResponse = await ask(berth.url, "/v1/responses/input_tokens", asked);
    assert.ok(Number(ofChat["input_tokens"]) > 0);
    assert.deepEqual(ofResponse, { object: "response.input_tokens", input_tokens: ofChat["input_tokens"] });
    const answered = await ask(berth.url, "/v1/responses", { model: "primary", input: "hello", max_output_tokens: 4 });
    assert.equal(answered["object"], "response");
    assert.equal(answered["model"], "primary");
  });

  await t.test("messages and responses stream in the events of their protocol", async () => {
    const types = async (path: string, body: object): Promise<unknown[]> =>
      (await events(await post(berth.url, path, { ...body, stream: true }))).chunks.map(({ type }) => type);
    const message = await types("/v1/messages", chat);
    assert.deepEqual([message[0], message.at(-1)], ["message_start", "message_stop"]);
    const response = await types("/v1/responses", { model: "primary", input: "hello", max_output_tokens: 4 });
    assert.equal(response[0], "response.created");
    assert.match(String(response.at(-1)), /^response\.(completed|incomplete)$/);
  });

  await t.test("its own metrics are there for a scraper with its key", async () => {
    assert.match(
      await (await fetch(`${endpoint}/metrics`, { headers })).text(),
      /^llamacpp:tokens_predicted_total \d/m,
    );
  });

  await t.test("killed with SIGKILL, it leaves the status at once and is started again", async () => {
    process.kill(pid, "SIGKILL");
    await until("another process is ready", async () => {
      const now = await berth.slot("primary");
      return ["ready", "idle"].includes(String(now["state"])) && processOf(now).pid !== pid;
    });
    const repaired = await berth.slot("primary");
    assert.equal(record(repaired["last_error"])["reason"], "Signalled");
    await ask(berth.url, "/v1/chat/completions", chat);
  });

  await t.test("an unknown flag stops the slot with the engine's own message", async () => {
    await writeFile(
      join(berth.configDir, "slots/tools.toml"),
      'args = ["--no-such-flag"]\n[model]\ndefault = "caller"\n',
    );
    const failed = await berth.state("tools", "error");
    assert.match(String(record(failed["last_error"])["message"]), /no-such-flag/);
  });

  await t.test("Ctrl-C leaves no llama-server", async () => {
    const last = processOf(await berth.slot("primary")).pid;
    assert.equal(await berth.stop("SIGINT"), 0);
    assert.equal(startTimeOf(last), undefined);
  });
});
