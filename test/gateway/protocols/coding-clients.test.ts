import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway } from "../../support/gateway.ts";
import { list, record } from "../../support/openai.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { specOf } from "../providers/fixture.ts";
import { text, tool, user } from "./bodies.ts";
import { openSite } from "./site.ts";

const schema = {
  type: "object",
  properties: { cmd: { type: "string" } },
  required: ["cmd"],
  additionalProperties: false,
};
const functionsOf = (tools: unknown): Record<string, unknown>[] => list(tools).map((each) => record(each["function"]));
const leftOut = ({ status, headers }: Response): unknown[] => [status, headers.get("x-berth-left-out")];

describe("the first request of a coding client", () => {
  it("of Claude Code gets an answer, from llama.cpp without what its grammars cannot hold, which the log names", async () => {
    await using site = await openSite(undefined, { spec: { engine: "llama" } });
    const script = { type: "string", maxLength: 524_288 };
    const response = await site.gateway.post("/v1/messages?beta=true", {
      model: "primary",
      messages: [user([text("say hi")]), { role: "system", content: "Available agent types" }],
      tools: [
        { name: "Bash", input_schema: { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema } },
        { name: "Workflow", input_schema: { ...schema, properties: { script } } },
      ],
      max_tokens: 32_000,
      thinking: { type: "adaptive" },
      context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
      output_config: { effort: "high" },
      stream: true,
    });
    assert.match(await response.text(), /event: message_stop\n/);
    assert.deepEqual(leftOut(response), [200, "tools.maxLength"]);
    const functions = functionsOf(site.asked()[1]["tools"]);
    assert.deepEqual(functions[1]?.["parameters"], { ...schema, properties: { script: { type: "string" } } });
    await until("it is logged", () => site.gateway.log().includes("/v1/messages primary"));
    assert.match(site.gateway.log(), /"leftOut":"tools.maxLength"/);
  });

  it("of Cursor's agent, a Responses request for a chat, gets the chunks of a chat", async () => {
    await using site = await openSite();
    const tools = [{ type: "function", name: "read", parameters: schema }, { type: "web_search" }];
    const system = { role: "system", content: "You are Cursor" };
    const input = [system, user([text("say hi", "input_text")])];
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
