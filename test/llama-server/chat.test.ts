import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { ask, list, post, record } from "../support/openai.ts";
import { readPublished } from "../support/published.ts";
import { keyOf, llamaServer, processOf, programOf, startWithLlamaServer } from "./fixture.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hello" }], max_tokens: 4, temperature: 0 };
const manifest = '[model]\ndefault = "tiny"\ncontext_size = 512\nparallel = 2\n';

test("a chat slot on the real llama-server", async (t) => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    await writeFile(join(configDir, "slots/primary.toml"), manifest);
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

  await t.test("its own metrics are there for a scraper with its key", async () => {
    assert.match(
      await (await fetch(`${endpoint}/metrics`, { headers })).text(),
      /^llamacpp:tokens_predicted_total \d/m,
    );
  });

  await t.test("an unknown flag stops the slot with the engine's own message", async () => {
    await writeFile(join(berth.configDir, "slots/primary.toml"), `args = ["--no-such-flag"]\n${manifest}`);
    const failed = await berth.state("primary", "error");
    assert.match(String(failed.last_error?.message), /no-such-flag/);
  });
});
