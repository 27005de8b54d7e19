import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { envelopeOf } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { json, scriptedEngine, type ScriptedEngine } from "../support/scripted-engine.ts";
import { isRecord } from "../../src/lib/record.ts";

/** Would be parsed into millions of objects, once more for the number that no double holds: 5 s, and 400 MB. */
const heavy = `[${"{},".repeat(1_400_000)}12345678901234567890]`;
const namesOf = (at: number): string => Array.from({ length: 40 }, (_, of) => `"k${at}-${of}":1`).join(",");
/** More than is parsed into objects. */
const names = `[${Array.from({ length: 1500 }, (_, at) => `{${namesOf(at)}}`).join(",")},12345678901234567890]`;
const picture = "QUJD".repeat(250_000);

describe("a heavy body", () => {
  let gateway: TestGateway;
  let engine: ScriptedEngine;
  const received = (): string => engine.seen.at(-1)?.body ?? "";

  before(async () => {
    const choices = [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }];
    const answer = { model: "engine-model", choices, data: [{ embedding: [1, 2, 3] }], results: [] };
    engine = await scriptedEngine((response) => json(response, answer));
    const { port } = engine;
    const slot = { port, spec: { engine: "llama" as const } };
    const request = { set: { temperature: 0.5 }, strip: ["top_k"] };
    gateway = await startGateway({
      env: { SVC_HOLD_SECONDS: "1" },
      slots: {
        plain: { ...slot, status: { capabilities: ["chat", "completions", "embeddings", "rerank", "vision"] } },
        ruled: { port, spec: { request } },
        many: { port, spec: { engine: "llama", request: { set: { "temperature!": 1, "top_p!": 1, "seed!": 1 } } } },
        grammar: {
          port,
          spec: {
            engine: "llama",
            request: { set: { "grammar!": `root ::= ${"(".repeat(300)}"a"${")".repeat(300)}` } },
          },
        },
        tts: { port, status: { capabilities: ["speech"] } },
        cold: { spec: { engine: "llama" }, status: { capabilities: ["chat", "embeddings"] } },
      },
    });
  });
  after(async () => {
    await gateway[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });

  async function posted(path: string, body: string): Promise<{ status: number; text: string; message: string }> {
    const answer = await gateway.post(path, body);
    const text = await answer.text();
    return { status: answer.status, text, message: /"message":"([^"]*)/.exec(text)?.[1] ?? "" };
  }

  const routes: readonly (readonly [what: string, path: string, body: (value: string) => string])[] = [
    ["a chat", "/v1/chat/completions", (x) => `{"model":"plain","messages":[],"x":${x}}`],
    ["a chat with rules", "/v1/chat/completions", (x) => `{"model":"ruled","messages":[],"x":${x}}`],
    ["a chat without a model", "/v1/chat/completions", (x) => `{"messages":[],"x":${x}}`],
    ["a chat that is cut", "/v1/chat/completions", (x) => `{"model":"plain","messages":[],"x":${x}`],
    ["a message", "/v1/messages", (x) => `{"model":"plain","max_tokens":1,"messages":[],"x":${x}}`],
    ["a response", "/v1/responses", (x) => `{"model":"plain","input":"a","x":${x}}`],
    ["a ranking", "/v1/rerank", (x) => `{"query":"a","texts":["a"],"x":${x}}`],
    ["short vectors", "/v1/embeddings", (x) => `{"model":"plain","input":"a","dimensions":2,"x":${x}}`],
    ["a drawing", "/v1/images/generations", (x) => `{"model":"img","prompt":"a","x":${x}}`],
    ["speech", "/v1/audio/speech", (x) => `{"model":"tts","input":"a","voice":"b","x":${x}}`],
  ];
  for (const [what, path, body] of routes)
    it(`is refused: ${what}`, async () => {
      const { status, message } = await posted(path, body(heavy));
      assert.equal(status, 400);
      assert.match(message, /the body holds too much/);
    });

  it("of 60,000 names is relayed, with a slot's rules too, and not translated", async () => {
    for (const model of ["plain", "ruled"]) {
      const { status, text } = await posted("/v1/chat/completions", `{"model":"${model}","messages":[],"x":${names}}`);
      assert.equal(status, 200, text);
      assert.ok(received().includes(names), "the value is not as it was written");
    }
    const { message } = await posted("/v1/responses", `{"model":"plain","x":${names}}`);
    assert.match(message, /holds too much to be translated: at most .* 100000 names and values/);
  });

  const data = `data:image/png;base64,${picture}`;
  const source = { type: "base64", media_type: "image/png", data: picture };
  // An address within a text is none of a picture.
  const text = { type: "text", text: "https://a.test" };
  const pictures: readonly (readonly [path: string, more: object, ...content: object[]])[] = [
    ["/v1/chat/completions", {}, { type: "image_url", image_url: { url: data } }],
    ["/v1/messages", { max_tokens: 1 }, text, { type: "image", source }],
    ["/v1/responses", {}, { type: "input_image", image_url: data, detail: "low" }],
  ];
  for (const [path, more, ...content] of pictures)
    it(`with a picture of a megabyte is taken by ${path}`, async () => {
      const said = [{ role: "user", content }];
      const body = { model: "plain", ...more, [path === "/v1/responses" ? "input" : "messages"]: said };
      const { status, text } = await posted(path, JSON.stringify(body));
      assert.equal(status, 200, text.slice(0, 200));
      assert.ok(received().includes(`"url":"${data}"`), "the picture is not whole");
    });

  it("is held for a cold slot as a warm one takes it", async () => {
    const content = [{ type: "image_url", image_url: { url: data } }];
    const bodies = [
      ["/v1/chat/completions", { messages: [{ role: "user", content }] }],
      ["/v1/embeddings", { input: Array(300).fill(Array(512).fill(7)) }],
      ["/v1/embeddings", { input: [1, "text", 2] }],
    ] as const;
    const answers = bodies.map(([path, body]) => gateway.post(path, JSON.stringify({ model: "cold", ...body })));
    for (const answer of answers) {
      const { error } = await envelopeOf(await answer);
      assert.equal(error.code, "slot.not_ready", error.message);
    }
  });

  it("that became too large to be read again is refused: an address in it would not be found", async () => {
    const url = "http://169.254.169.254/a.png";
    const call = { type: "shell_call", call_id: "c", action: { data: "{},".repeat(3_000_000) } };
    const input = [call, { role: "user", content: [{ type: "input_image", image_url: url }] }];
    assert.match((await posted("/v1/responses", JSON.stringify({ model: "plain", input }))).message, /holds too much/);
    const many = Object.fromEntries(Array.from({ length: 4998 }, (_, at) => [`k${at}`, 1]));
    const messages = [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }];
    const ruled = JSON.stringify({ model: "many", messages, ...many });
    assert.match((await posted("/v1/chat/completions", ruled)).message, /holds too much/);
  });

  it("of a small size cannot name tools at length, nor give an engine a heavy grammar by a slot's rules", async () => {
    const members = Array.from({ length: 20 }, (_, at) => ({ type: "custom", name: `t${at}` }));
    const tools = [{ type: "namespace", name: "n".repeat(200_000), tools: members }];
    const long = await posted("/v1/responses", JSON.stringify({ model: "plain", input: "a", tools }));
    assert.match(long.message, /at most 256 characters/);
    const plain = JSON.stringify({ model: "grammar", messages: [{ role: "user", content: "hi" }] });
    assert.match((await posted("/v1/chat/completions", plain)).message, /grammar/);
  });

  it("shows a client its own fields as it sent them", async () => {
    const metadata = { data: "B".repeat(17_000) };
    const { text } = await posted("/v1/responses", JSON.stringify({ model: "plain", input: "a", metadata }));
    const answer: unknown = JSON.parse(text);
    assert.deepEqual(isRecord(answer) && answer["metadata"], metadata);
  });

  it("with a million tokens as numbers is taken for its vectors", async () => {
    const input = JSON.stringify(Array(2048).fill(Array(512).fill(100_277)));
    assert.equal((await posted("/v1/embeddings", `{"model":"plain","dimensions":2,"input":${input}}`)).status, 200);
    assert.ok(received().endsWith(`"input":${input}}`));
  });

  it("with a byte order mark is taken without it", async () => {
    const { status, text } = await posted("/v1/chat/completions", '\uFEFF{"model":"plain","messages":[]}');
    assert.equal(status, 200, text);
    assert.ok(received().startsWith('{"model"'), received());
  });
});
