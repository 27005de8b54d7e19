import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway } from "../../support/gateway.ts";
import { list, record } from "../../support/openai.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { specOf } from "../upstreams/fixture.ts";
import { until } from "../../support/until.ts";

const schema = {
  type: "object",
  properties: { cmd: { type: "string" } },
  required: ["cmd"],
  additionalProperties: false,
};
const text = (type: string, ...texts: readonly string[]): object[] => texts.map((each) => ({ type, text: each }));

/** The form of the first request of Codex 0.171.0 with default settings. */
const codex = {
  model: "primary",
  stream: true,
  input: [
    { type: "message", id: "msg_1", role: "developer", content: text("input_text", "You are a coding agent") },
    { type: "message", id: "msg_2", role: "developer", content: text("input_text", "## Skills", "<permissions>") },
    { type: "message", id: "msg_3", role: "user", content: text("input_text", "<environment_context>") },
    { type: "message", id: "msg_4", role: "user", content: text("input_text", "say hi") },
  ],
  tools: [
    { type: "function", name: "exec_command", description: "Runs a command", strict: false, parameters: schema },
    {
      type: "namespace",
      name: "multi_agent_v1",
      description: "Sub-agents",
      tools: [{ type: "function", name: "wait_agent", description: "Waits", strict: false, parameters: schema }],
    },
    { type: "web_search", external_web_access: false },
    { type: "custom", name: "apply_patch", description: "Edits files", format: { type: "text" } },
  ],
  tool_choice: "auto",
  parallel_tool_calls: true,
  reasoning: { summary: "auto" },
  store: false,
  include: ["reasoning.encrypted_content"],
  prompt_cache_key: "01a22029",
};

/** The form of the first request of Claude Code 2.1.197. */
const claudeCode = {
  model: "primary",
  messages: [
    {
      role: "user",
      content: [
        ...text("text", "<system-reminder>"),
        { type: "text", text: "say hi", cache_control: { type: "ephemeral" } },
      ],
    },
    { role: "system", content: "Available agent types" },
  ],
  system: [
    { type: "text", text: "x-anthropic-billing-header: cc_entrypoint=sdk-cli;" },
    { type: "text", text: "You are a Claude agent", cache_control: { type: "ephemeral" } },
  ],
  tools: [
    {
      name: "Bash",
      description: "Runs a command",
      input_schema: { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema },
    },
  ],
  metadata: { user_id: "{}" },
  max_tokens: 32_000,
  thinking: { type: "adaptive" },
  context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
  output_config: { effort: "high" },
  stream: true,
};

/** The form of the first request of Qwen Code 0.15.10. */
const qwenCode = {
  model: "engine-model",
  messages: [
    { role: "system", content: "You are Qwen Code" },
    { role: "user", content: text("text", "This is the Qwen Code.") },
    { role: "assistant", content: "Got it. Thanks for the context!" },
    { role: "user", content: text("text", "say hi") },
  ],
  stream: true,
  stream_options: { include_usage: true },
  tools: [
    {
      type: "function",
      function: {
        name: "agent",
        description: "Launch",
        parameters: { ...schema, $schema: "http://json-schema.org/draft-07/schema#" },
      },
    },
  ],
  max_tokens: 8000,
};

describe("the first request of a coding client", () => {
  it("of Codex gets an answer, and learns which tools are left out", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const response = await gateway.post("/v1/responses", codex);
    assert.match(await response.text(), /event: response\.completed\n/);
    assert.deepEqual([response.status, response.headers.get("x-berth-left-out")], [200, "web_search"]);
    const named = (name: string, description: string, more: object): object => {
      return { type: "function", function: { name, description, ...more } };
    };
    const input = {
      type: "object",
      properties: { input: { type: "string" } },
      required: ["input"],
      additionalProperties: false,
    };
    assert.deepEqual(JSON.parse(engine.seen[0]?.body ?? ""), {
      model: "engine-model",
      messages: [
        { role: "system", content: "You are a coding agent\n\n## Skills\n\n<permissions>" },
        { role: "user", content: "<environment_context>" },
        { role: "user", content: "say hi" },
      ],
      tools: [
        named("exec_command", "Runs a command", { parameters: schema, strict: false }),
        named("multi_agent_v1wait_agent", "Waits", { parameters: schema, strict: false }),
        named("apply_patch", "Edits files", { parameters: input }),
      ],
      tool_choice: "auto",
      parallel_tool_calls: true,
      stream: true,
      stream_options: { include_usage: true },
    });
    await until("it is logged", () => gateway.log().includes("/v1/responses primary"));
    assert.match(gateway.log(), /"leftOut":"web_search"/);
    const refused = await gateway.post("/v1/responses", { ...codex, tool_choice: { type: "web_search" } });
    assert.equal(refused.status, 400);
    assert.match(await refused.text(), /web_search cannot be called here: only functions and custom tools/);
  });

  it("of Claude Code gets an answer", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const response = await gateway.post("/v1/messages?beta=true", claudeCode);
    assert.match(await response.text(), /event: message_stop\n/);
    const { messages, tools } = record(JSON.parse(engine.seen[0]?.body ?? ""));
    assert.deepEqual(
      list(messages).map(({ role, content }) => [role, content]),
      [
        ["system", "x-anthropic-billing-header: cc_entrypoint=sdk-cli;\n\nYou are a Claude agent"],
        ["user", "<system-reminder>\n\nsay hi\n\n<system-reminder>\nAvailable agent types\n</system-reminder>"],
      ],
    );
    assert.deepEqual(
      list(tools).map((tool) => record(tool["function"])["name"]),
      ["Bash"],
    );
  });

  it("of Claude Code reaches llama.cpp without what its grammars cannot hold, and says so", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec: { engine: "llama" } } } });
    const workflow = (script: object): object => ({
      name: "Workflow",
      input_schema: { ...schema, properties: { script } },
    });
    const tools = [...claudeCode.tools, workflow({ type: "string", maxLength: 524_288 })];
    const response = await gateway.post("/v1/messages", { ...claudeCode, stream: false, tools });
    assert.deepEqual([response.status, response.headers.get("x-berth-left-out")], [200, "tools.maxLength"]);
    const { tools: sent } = record(JSON.parse(engine.seen[0]?.body ?? ""));
    assert.deepEqual(record(list(sent)[1]?.["function"])["parameters"], {
      ...schema,
      properties: { script: { type: "string" } },
    });
  });

  it("of Cursor's agent, a Responses request for a chat, gets the chunks of a chat", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const tools = [{ type: "function", name: "read", parameters: schema }, { type: "web_search" }];
    const input = [
      { role: "system", content: "You are Cursor" },
      { role: "user", content: text("input_text", "say hi") },
    ];
    const asked = { model: "primary", stream: true, input, tools, reasoning: { effort: "low" }, max_tokens: 9 };
    const response = await gateway.post("/v1/chat/completions", asked);
    assert.match(await response.text(), /"object":"chat\.completion\.chunk".*data: \[DONE\]\n/s);
    assert.equal(response.headers.get("x-berth-left-out"), "web_search");
    assert.deepEqual(JSON.parse(engine.seen[0]?.body ?? ""), {
      model: "engine-model",
      stream: true,
      max_tokens: 9,
      messages: [
        { role: "system", content: "You are Cursor" },
        { role: "user", content: "say hi" },
      ],
      tools: [{ type: "function", function: { name: "read", parameters: schema } }],
      reasoning_effort: "low",
      stream_options: { include_usage: true },
    });
  });

  it("of Cursor's chat has its flat tools as functions, on a slot and at a provider", async () => {
    await using engine = await scriptedEngine();
    await using provider = await scriptedEngine();
    const upstreams = [{ name: "acme", spec: specOf({ baseUrl: `http://127.0.0.1:${provider.port}/v1` }) }];
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } }, registry: { upstreams } });
    const nested = { type: "function", function: { name: "read", parameters: schema } };
    const messages = [{ role: "user", content: "say hi" }];
    const tools = [
      nested,
      { type: "function", name: "list", parameters: schema },
      { type: "custom", name: "ApplyPatch", format: { type: "grammar", syntax: "lark", definition: "start: x" } },
    ];
    const asked = { messages, tools, tool_choice: { type: "function", name: "list" } };
    for (const model of ["primary", "gpt-double"]) {
      await gateway.post("/v1/chat/completions", { model, ...asked });
      await gateway.post("/v1/chat/completions", { model, messages, tools });
    }
    for (const { seen } of [engine, provider]) {
      const sent = record(JSON.parse(seen[0]?.body ?? ""));
      const functions = list(sent["tools"]).map((tool) => record(tool["function"]));
      assert.deepEqual(functions.slice(0, 2), [nested.function, { name: "list", parameters: schema }]);
      assert.deepEqual(Object.keys(record(record(functions[2]?.["parameters"])["properties"])), ["input"]);
      assert.deepEqual(sent["tool_choice"], { type: "function", function: { name: "list" } });
      const without = record(JSON.parse(seen[1]?.body ?? ""));
      assert.deepEqual([without["tools"], without["tool_choice"]], [sent["tools"], undefined]);
    }
  });

  it("of Qwen Code reaches the engine unchanged", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port, status: { aliases: ["engine-model"] } } },
    });
    const response = await gateway.post("/v1/chat/completions", qwenCode);
    assert.match(await response.text(), /data: \[DONE\]\n/);
    assert.equal(engine.seen[0]?.body, JSON.stringify(qwenCode));
  });
});
