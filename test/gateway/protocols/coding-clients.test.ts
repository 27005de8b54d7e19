import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway } from "../../support/gateway.ts";
import { list, record } from "../../support/openai.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { specOf } from "../upstreams/fixture.ts";
import { until } from "../../support/until.ts";
import { text, tool, user } from "./bodies.ts";
import { openSite } from "./site.ts";

const schema = {
  type: "object",
  properties: { cmd: { type: "string" } },
  required: ["cmd"],
  additionalProperties: false,
};
const texts = (type: string, ...words: readonly string[]): object[] => words.map((each) => text(each, type));

const message = (id: string, role: string, ...words: readonly string[]): object => ({
  type: "message",
  id,
  role,
  content: texts("input_text", ...words),
});

/** The form of the first request of Codex 0.171.0 with default settings. */
const codex = {
  model: "primary",
  stream: true,
  input: [
    message("msg_1", "developer", "You are a coding agent"),
    message("msg_2", "developer", "## Skills", "<permissions>"),
    message("msg_3", "user", "<environment_context>"),
    message("msg_4", "user", "say hi"),
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
      content: [text("<system-reminder>"), { ...text("say hi"), cache_control: { type: "ephemeral" } }],
    },
    { role: "system", content: "Available agent types" },
  ],
  system: [
    text("x-anthropic-billing-header: cc_entrypoint=sdk-cli;"),
    { ...text("You are a Claude agent"), cache_control: { type: "ephemeral" } },
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

describe("the first request of a coding client", () => {
  const functionsOf = (tools: unknown): Record<string, unknown>[] =>
    list(tools).map((each) => record(each["function"]));
  const leftOut = ({ status, headers }: Response): unknown[] => [status, headers.get("x-berth-left-out")];

  it("of Codex gets an answer, and learns which tools are left out", async () => {
    await using site = await openSite();
    const response = await site.gateway.post("/v1/responses", codex);
    assert.match(await response.text(), /event: response\.completed\n/);
    assert.deepEqual(leftOut(response), [200, "web_search"]);
    const input = {
      type: "object",
      properties: { input: { type: "string" } },
      required: ["input"],
      additionalProperties: false,
    };
    assert.deepEqual(site.asked()[1], {
      model: "engine-model",
      messages: [
        { role: "system", content: "You are a coding agent\n\n## Skills\n\n<permissions>" },
        user("<environment_context>"),
        user("say hi"),
      ],
      tools: [
        tool("exec_command", { description: "Runs a command", parameters: schema, strict: false }),
        tool("multi_agent_v1wait_agent", { description: "Waits", parameters: schema, strict: false }),
        tool("apply_patch", { description: "Edits files", parameters: input }),
      ],
      tool_choice: "auto",
      parallel_tool_calls: true,
      stream: true,
      stream_options: { include_usage: true },
    });
    await until("it is logged", () => site.gateway.log().includes("/v1/responses primary"));
    assert.match(site.gateway.log(), /"leftOut":"web_search"/);
  });

  it("of Claude Code gets an answer, from llama.cpp without what its grammars cannot hold", async () => {
    await using site = await openSite(undefined, { spec: { engine: "llama" } });
    const script = { type: "string", maxLength: 524_288 };
    const workflow = { name: "Workflow", input_schema: { ...schema, properties: { script } } };
    const asked = { ...claudeCode, tools: [...claudeCode.tools, workflow] };
    const response = await site.gateway.post("/v1/messages?beta=true", asked);
    assert.match(await response.text(), /event: message_stop\n/);
    assert.deepEqual(leftOut(response), [200, "tools.maxLength"]);
    const { messages, tools } = site.asked()[1];
    assert.deepEqual(messages, [
      { role: "system", content: "x-anthropic-billing-header: cc_entrypoint=sdk-cli;\n\nYou are a Claude agent" },
      user("<system-reminder>\n\nsay hi\n\n<system-reminder>\nAvailable agent types\n</system-reminder>"),
    ]);
    const functions = functionsOf(tools);
    assert.deepEqual(
      functions.map(({ name }) => name),
      ["Bash", "Workflow"],
    );
    assert.deepEqual(functions[1]?.["parameters"], { ...schema, properties: { script: { type: "string" } } });
  });

  it("of Cursor's agent, a Responses request for a chat, gets the chunks of a chat", async () => {
    await using site = await openSite();
    const tools = [{ type: "function", name: "read", parameters: schema }, { type: "web_search" }];
    const system = { role: "system", content: "You are Cursor" };
    const input = [system, user(texts("input_text", "say hi"))];
    const asked = { model: "primary", stream: true, input, tools, reasoning: { effort: "low" }, max_tokens: 9 };
    const response = await site.gateway.post("/v1/chat/completions", asked);
    assert.match(await response.text(), /"object":"chat\.completion\.chunk".*data: \[DONE\]\n/s);
    assert.deepEqual(leftOut(response), [200, "web_search"]);
    assert.deepEqual(site.asked()[1], {
      model: "engine-model",
      stream: true,
      max_tokens: 9,
      messages: [system, user("say hi")],
      tools: [tool("read", { parameters: schema })],
      reasoning_effort: "low",
      stream_options: { include_usage: true },
    });
  });

  it("of Cursor's chat has its flat tools as functions, on a slot and at a provider", async () => {
    await using engine = await scriptedEngine();
    await using provider = await scriptedEngine();
    const upstreams = [{ name: "acme", spec: specOf({ baseUrl: `http://127.0.0.1:${provider.port}/v1` }) }];
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } }, registry: { upstreams } });
    const messages = [user("say hi")];
    const tools = [
      tool("read", { parameters: schema }),
      { type: "function", name: "list", parameters: schema },
      { type: "custom", name: "ApplyPatch", format: { type: "grammar", syntax: "lark", definition: "start: x" } },
    ];
    for (const model of ["primary", "gpt-double"]) {
      const choice = { type: "function", name: "list" };
      await gateway.post("/v1/chat/completions", { model, messages, tools, tool_choice: choice });
      await gateway.post("/v1/chat/completions", { model, messages, tools });
    }
    for (const { seen } of [engine, provider]) {
      const [first, without] = seen.map(({ body }) => record(JSON.parse(body)));
      const functions = functionsOf(first?.["tools"]);
      assert.deepEqual(
        functions.slice(0, 2),
        ["read", "list"].map((name) => ({ name, parameters: schema })),
      );
      assert.deepEqual(Object.keys(record(record(functions[2]?.["parameters"])["properties"])), ["input"]);
      assert.deepEqual(first?.["tool_choice"], tool("list", {}));
      assert.deepEqual([without?.["tools"], without?.["tool_choice"]], [first["tools"], undefined]);
    }
  });
});
