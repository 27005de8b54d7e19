import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { exchanging } from "./site.ts";

/** No double holds these. */
const many = "1310456789012345678";
const huge = "-1e400";
const open = `{"id":${many},"deep":[{"at":${huge}}],"own":{"rawJSON":"7"},"__proto__":{"a":${many}}}`;
const schema = `{"maximum":${many},"minimum":${huge}}`;
const written = `"arguments":${JSON.stringify(open)}`;
const hello = '"model":"primary","max_tokens":9,"messages":[{"role":"user","content":"hello"}]';
const input = '"model":"primary","input":"hello"';
const calls = `"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":${open}}]}]`;
const format = `"output_config":{"format":{"type":"json_schema","schema":${schema}}}`;
const tool = `{"type":"function","name":"f","parameters":${schema}}`;
const text = `{"format":{"type":"json_schema","name":"n","schema":${schema}}}`;
const chat = (args: string): string =>
  JSON.stringify({
    choices: [{ message: { tool_calls: [{ id: "c", function: { name: "f", arguments: args } }] } }],
  });

describe("a number that no double holds", () => {
  const send = exchanging("", {}, { spec: { request: { set: { a: 1 }, strip: ["top_k"] } } });

  const requests: readonly (readonly [path: string, body: string, ...parts: readonly string[]])[] = [
    ["/v1/messages", `{"model":"primary","max_tokens":9,${calls}}`, written],
    ["/v1/messages", `{${hello},"tools":[{"name":"f","input_schema":${schema}}]}`, `"parameters":${schema}`],
    ["/v1/messages", `{${hello},${format}}`, `"schema":${schema}`],
    ["/v1/responses", `{${input},"seed":${many},"more":${open}}`, `"seed":${many}`, `"more":${open}`],
    ["/v1/responses", `{${input},"tools":[${tool}],"text":${text}}`, `"parameters":${schema}`, `"schema":${schema}`],
    [
      "/v1/chat/completions",
      `{${hello},"seed":${many},"more":${open},"top_k":1}`,
      `"seed":${many},"more":${open},"a":1}`,
    ],
    ["/v1/embeddings", `{${input},"dimensions":2,"seed":${many}}`, `"seed":${many}`],
    ["/v1/rerank", `{"model":"primary","query":"a","documents":["b"],"seed":${many}}`, `"seed":${many}`],
  ];
  it("reaches the engine as the client wrote it, also past a slot's rules", async () => {
    for (const [path, body, ...parts] of requests) {
      const { sentText } = await send(body, undefined, path);
      for (const part of parts) assert.ok(sentText.includes(part), `${sentText} has not ${part}`);
    }
  });

  it("reaches the client as the engine wrote it, or within the settings that are repeated", async () => {
    const begun = `{"created":${many},"choices":[{"index":0,"delta":{"content":"a"}}]}`;
    for (const [path, body, answer, part] of [
      ["/v1/messages", `{${hello}}`, chat(open), `"input":${open}`],
      ["/v1/responses", `{${input},"tools":[${tool}]}`, chat("{}"), `"tools":[${tool}]`],
      [
        "/v1/chat/completions",
        `{${hello},"stream":true}`,
        `data: ${begun}\n\n`,
        `"created":${many},"choices":[{"index":0,"delta":{"role"`,
      ],
    ] as const) {
      const { text: got } = await send(body, answer, path);
      assert.ok(got.includes(part), `${got} has not ${part}`);
    }
  });

  it("is still there in a call that was kept, and is named again", async () => {
    const { text: answer } = await send(`{${input}}`, chat(open), "/v1/responses");
    const [, id] = /"(fc_\w+)"/.exec(answer) ?? [];
    const again = `{"model":"primary","input":[{"type":"item_reference","id":"${id}"}]}`;
    assert.ok((await send(again, undefined, "/v1/responses")).sentText.includes(written));
  });

  it("is no input of a call", async () => {
    for (const args of [`[${many}]`, "[]", many, ` ${many}`])
      assert.equal((await send(`{${hello}}`, chat(args), "/v1/messages")).status, 502, args);
  });
});
