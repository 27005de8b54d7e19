import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/cli/output.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { command, startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";

const run = promisify(execFile);

async function withModels({ configDir, modelsDir }: { configDir: string; modelsDir: string }): Promise<void> {
  await writeTinyModel(join(modelsDir, "tiny.gguf"));
  await writeTinyModel(join(modelsDir, "tiny-embed.gguf"), { embedding: true });
  await writeFile(join(configDir, "slots/primary.toml"), 'enabled = true\n[model]\ndefault = "tiny"\n');
}

function post(berth: RunningBerth, path: string, body: unknown): Promise<Response> {
  return fetch(new URL(path, berth.url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

function pidOf(slot: Record<string, unknown>): number {
  const [process] = Array.isArray(slot["processes"]) ? slot["processes"].filter(isRecord) : [];
  return Number(process?.["pid"]);
}

test("edit a manifest, get a served model: the real engine behind the real gateway", async (t) => {
  await using berth = await startBerth({ prepare: withModels });
  const first = await berth.state("primary", "ready");

  await t.test("the engine reports its devices", () => {
    assert.deepEqual(first["compute"], { devices: [], layers_offloaded: 0, layers_total: 3, buffers: [] });
    assert.equal(first["backend"], "cpu");
  });

  await t.test("a chat is answered under the name the client used", async () => {
    const response = await post(berth, "/v1/chat/completions", {
      model: "primary",
      messages: [{ role: "user", content: "hello" }],
      max_tokens: 4,
      temperature: 0,
    });
    const body: unknown = await response.json();
    assert.equal(response.status, 200);
    assert.ok(isRecord(body));
    assert.equal(body["model"], "primary");
    assert.equal(body["object"], "chat.completion");
    assert.ok(isRecord(body["usage"]));
    assert.equal(body["usage"]["completion_tokens"], 4);
    assert.match(response.headers.get("x-request-id") ?? "", /^[A-Za-z0-9._-]+$/);
  });

  await t.test("a stream begins with the role, carries the name and ends with [DONE]", async () => {
    const response = await post(berth, "/v1/chat/completions", {
      model: "primary",
      stream: true,
      messages: [{ role: "user", content: "hello" }],
      max_tokens: 3,
    });
    const text = await response.text();
    const events = text.trimEnd().split("\n\n");
    assert.equal(events.at(-1), "data: [DONE]");
    const chunks = events.slice(0, -1).map((event): unknown => JSON.parse(event.slice("data: ".length)));
    for (const chunk of chunks)
      assert.ok(isRecord(chunk) && chunk["model"] === "primary" && chunk["object"] === "chat.completion.chunk");
    const [begin] = chunks;
    assert.ok(isRecord(begin));
    assert.deepEqual(begin["choices"], [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }]);
  });

  await t.test("a plain completion by the registry ref", async () => {
    const response = await post(berth, "/v1/completions", { model: "tiny", prompt: "the", max_tokens: 2 });
    const body: unknown = await response.json();
    assert.ok(isRecord(body) && body["object"] === "text_completion" && body["model"] === "tiny");
  });

  await t.test("a new manifest is a new slot at once, and leaves the others alone", async () => {
    await writeFile(join(berth.configDir, "slots/embed.yaml"), "model:\n  default: tiny-embed\n");
    await until("the operator acts", () => /embed: starting/.test(berth.log()));
    await berth.state("embed", "ready");
    const response = await post(berth, "/v1/embeddings", { model: "embed", input: ["hello", "world"] });
    const body: unknown = await response.json();
    assert.ok(isRecord(body) && Array.isArray(body["data"]));
    assert.equal(body["data"].length, 2);
    assert.equal(pidOf(await berth.slot("primary")), pidOf(first));
  });

  await t.test("an edit of labels or idle time restarts nothing", async () => {
    const before = await berth.slot("primary");
    await writeFile(
      join(berth.configDir, "slots/primary.toml"),
      'enabled = true\nidle_seconds = 5\naliases = ["gpt"]\n[model]\ndefault = "tiny"\n[labels]\nteam = "x"\n',
    );
    const after = await until("the edit is observed", async () => {
      const slot = await berth.slot("primary");
      return slot["generation"] === 2 ? slot : undefined;
    });
    assert.equal(pidOf(after), pidOf(before));
    assert.deepEqual(after["aliases"], ["gpt"]);
    const response = await post(berth, "/v1/chat/completions", {
      model: "gpt",
      messages: [{ role: "user", content: "x" }],
      max_tokens: 1,
    });
    assert.equal(response.status, 200);
  });

  await t.test("a removed manifest drains and deletes its slot after a second listing agrees", async () => {
    const pid = pidOf(await berth.slot("embed"));
    await rm(join(berth.configDir, "slots/embed.yaml"));
    await until("the engine is gone", () => startTimeOf(pid) === undefined);
    const slot = await until("it is unconfigured again", async () => {
      const found = await berth.slot("embed");
      return found["state"] === "offline" ? found : undefined;
    });
    assert.equal(slot["enabled"], false);
  });

  await t.test("a directory that is moved away deletes nothing", async () => {
    const pid = pidOf(await berth.slot("primary"));
    await rename(join(berth.configDir, "slots"), join(berth.configDir, "elsewhere"));
    await until("the source is reported", async () =>
      JSON.stringify(await berth.get("/api/health/system")).includes("Source"),
    );
    assert.equal(pidOf(await berth.slot("primary")), pid);
    await rename(join(berth.configDir, "elsewhere"), join(berth.configDir, "slots"));
    await until(
      "the report ends",
      async () => !JSON.stringify(await berth.get("/api/health/system")).includes("Source"),
    );
    assert.equal(pidOf(await berth.slot("primary")), pid);
  });

  await t.test("the command line shows the slot and its plan", async () => {
    const env = { ...berth.env, SVC_URL: berth.url };
    const list = await run(command, ["slot", "list"], { env });
    assert.match(
      list.stdout,
      /^NAME +STATE +READY +MODEL +PORT +RESTARTS +UP\nprimary +(ready|idle|serving) +True\/Loaded +tiny /,
    );
    const plan = await run(command, ["slot", "plan", "primary"], { env });
    assert.equal(plan.stdout, "primary: Loaded: tiny is loaded\n  nothing to do\n");
    const shown = await run(command, ["slot", "show", "primary"], { env });
    assert.match(shown.stdout, /^memory: +\d+(\.\d)? MiB$/m);
    const answer = await run(command, ["chat", "primary", "hello", "--max-tokens", "3"], { env });
    assert.match(answer.stdout, /^\S+ \S+ \S+\n$/);
    const logs = await run(command, ["slot", "logs", "primary"], { env });
    assert.match(logs.stdout, /loaded tiny in/);
    await assert.rejects(run(command, ["slot", "show", "nope"], { env }), {
      code: 1,
      stderr: /slot\.not_found: no slot is called "nope"\nsee `berth slot list`/,
    });
  });

  await t.test("metrics count the same requests and transitions", async () => {
    const gateway = await (await fetch(`${berth.url}/metrics`)).text();
    assert.match(gateway, /berth_requests_total\{route="\/v1\/chat\/completions",slot="primary",code="200"\} \d/);
    assert.match(gateway, /berth_slot_state\{slot="primary",state="(ready|idle|serving)"\} 1/);
    const operator = await (await fetch(`${berth.operatorUrl}/metrics`)).text();
    assert.match(operator, /^berth_slot_transitions_total\{slot="primary",to="ready"\} 1$/m);
  });
});
