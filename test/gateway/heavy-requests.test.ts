import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import { envelopeOf } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { isRecord } from "../../src/lib/record.ts";

/** Was parsed into millions of objects, once more for the number that no double holds: 5 s, and 400 MB. */
const heavy = `[${"{},".repeat(1_400_000)}12345678901234567890]`;
/** More than is parsed into objects. */
const names = `[${Array.from({ length: 1500 }, (_, at) => `{${Array.from({ length: 40 }, (_each, of) => `"k${at}-${of}":1`).join(",")}}`).join(",")},12345678901234567890]`;
const picture = "QUJD".repeat(2_500_000);

describe("a heavy body", () => {
  let gateway: TestGateway;
  let received = "";
  const engine = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      received = Buffer.concat(parts).toString();
      const choices = [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }];
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ model: "engine-model", choices, data: [{ embedding: [1, 2, 3] }], results: [] }));
    });
  });

  before(async () => {
    const port = await listen(engine);
    const slot = { port, spec: { engine: "llama" as const } };
    const request = { set: { temperature: 0.5 }, strip: ["top_k"] };
    gateway = await startGateway({
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
      },
    });
  });
  after(async () => {
    await gateway[Symbol.asyncDispose]();
    engine.close();
  });

  /** The most processor time that one turn of this process took, in which the gateway runs too. */
  async function posted(path: string, body: string): Promise<{ answer: Response; text: string; turnMs: number }> {
    let turnMs = 0;
    let isOver = false;
    let last = process.threadCpuUsage();
    const look = (): void => {
      const { user, system } = process.threadCpuUsage(last);
      last = process.threadCpuUsage();
      turnMs = Math.max(turnMs, (user + system) / 1000);
      if (!isOver) setImmediate(look);
    };
    setImmediate(look);
    const answer = await gateway.post(path, body);
    const text = await answer.text();
    isOver = true;
    return { answer, text, turnMs };
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
    it(`is refused quickly: ${what}`, async () => {
      const { answer, text, turnMs } = await posted(path, body(heavy));
      assert.equal(answer.status, 400, text.slice(0, 200));
      assert.match(text, /the body holds too much/);
      // A bound for busy machines.
      assert.ok(turnMs < 400, `${turnMs} ms`);
    });

  it("of 60,000 names is relayed, with a slot's rules too, and not translated", async () => {
    for (const model of ["plain", "ruled"]) {
      const { answer, text } = await posted("/v1/chat/completions", `{"model":"${model}","messages":[],"x":${names}}`);
      assert.equal(answer.status, 200, text);
      assert.ok(received.includes(names), "the value is not as it was written");
    }
    const { error } = await envelopeOf(await gateway.post("/v1/responses", `{"model":"plain","x":${names}}`));
    assert.match(error.message, /holds too much to be translated: at most .* 100000 names and values/);
  });

  const data = `data:image/png;base64,${picture}`;
  const pictures: readonly (readonly [path: string, body: object])[] = [
    [
      "/v1/chat/completions",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: data } }] }] },
    ],
    [
      "/v1/messages",
      {
        max_tokens: 1,
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "https://a.test" },
              { type: "image", source: { type: "base64", media_type: "image/png", data: picture } },
            ],
          },
        ],
      },
    ],
    [
      "/v1/responses",
      { input: [{ role: "user", content: [{ type: "input_image", image_url: data, detail: "low" }] }] },
    ],
  ];
  for (const [path, body] of pictures)
    it(`with a picture of 10 MB is taken by ${path}`, async () => {
      const { answer, text, turnMs } = await posted(path, JSON.stringify({ model: "plain", ...body }));
      assert.equal(answer.status, 200, text.slice(0, 200));
      assert.ok(received.includes(`"url":"${data}"`), "the picture is not whole");
      assert.ok(turnMs < 400, `${turnMs} ms`);
    });

  const source = { type: "base64", media_type: "image/png", data: "QUJD" };
  const notes = Array.from({ length: 18_000 }, () => ({ role: "system", content: "x" }));
  const file = { type: "input_file", filename: "a", file_data: `data:${"a".repeat(30_000)}` };
  /** Each took seconds: the parts were copied for each note, and the text was read again for each of its characters. */
  const repeated: readonly (readonly [what: string, path: string, body: object])[] = [
    [
      "notes of the system after an image",
      "/v1/messages",
      { max_tokens: 1, messages: [{ role: "user", content: [{ type: "image", source }] }, ...notes] },
    ],
    [
      "notes of the system after an image",
      "/v1/responses",
      {
        input: [
          { role: "user", content: [{ type: "input_image", image_url: "data:image/png;base64,QUJD" }] },
          ...notes,
        ],
      },
    ],
    [
      "notes of the system after the results of a call",
      "/v1/messages",
      {
        max_tokens: 1,
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", content: [{ type: "tool_use", id: "t", name: "t", input: {} }] },
          ...notes,
          { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "done" }] },
        ],
      },
    ],
    ["a file without the comma of its address", "/v1/responses", { input: [{ role: "user", content: [file] }] }],
  ];
  for (const [what, path, body] of repeated)
    it(`with ${what} is read once by ${path}`, async () => {
      const { answer, text, turnMs } = await posted(path, JSON.stringify({ model: "plain", ...body }));
      assert.equal(answer.status, 200, text.slice(0, 200));
      assert.ok(turnMs < 400, `${turnMs} ms`);
    });

  it("is held for a cold slot as a warm one takes it", async () => {
    await using cold = await startGateway({
      slots: { cold: { spec: { engine: "llama" }, status: { capabilities: ["chat", "embeddings"] } } },
      env: { SVC_HOLD_SECONDS: "1" },
    });
    const content = [{ type: "image_url", image_url: { url: data } }];
    const bodies = [
      ["/v1/chat/completions", { messages: [{ role: "user", content }] }],
      ["/v1/embeddings", { input: Array(300).fill(Array(512).fill(7)) }],
      ["/v1/embeddings", { input: [1, "text", 2] }],
    ] as const;
    for (const [path, body] of bodies) {
      const { error } = await envelopeOf(await cold.post(path, JSON.stringify({ model: "cold", ...body })));
      assert.equal(error.code, "slot.not_ready", error.message);
    }
  });

  it("that became too large to be read again is refused: an address in it would not be found", async () => {
    const call = { type: "shell_call", call_id: "c", action: { data: "{},".repeat(3_000_000) } };
    const picture = { type: "input_image", image_url: "http://169.254.169.254/a.png" };
    const input = [call, { role: "user", content: [picture] }];
    const { error } = await envelopeOf(await gateway.post("/v1/responses", JSON.stringify({ model: "plain", input })));
    assert.match(error.message, /holds too much/);
    const many = Object.fromEntries(Array.from({ length: 4998 }, (_, at) => [`k${at}`, 1]));
    const messages = [{ role: "user", content: [{ type: "image_url", image_url: { url: picture.image_url } }] }];
    const ruled = JSON.stringify({ model: "many", messages, ...many });
    assert.match((await envelopeOf(await gateway.post("/v1/chat/completions", ruled))).error.message, /holds too much/);
  });

  it("of a small size cannot name tools at length, nor give an engine a heavy grammar by a slot's rules", async () => {
    const members = Array.from({ length: 2000 }, (_, at) => ({ type: "custom", name: `t${at}` }));
    const tools = [{ type: "namespace", name: "n".repeat(200_000), tools: members }];
    const long = JSON.stringify({ model: "plain", input: "a", tools });
    const { error } = await envelopeOf(await gateway.post("/v1/responses", long));
    assert.deepEqual(
      [error.code, error.message.includes("at most 256 characters")],
      ["dispatch.invalid_request", true],
    );
    const plain = JSON.stringify({ model: "grammar", messages: [{ role: "user", content: "hi" }] });
    const refused = await envelopeOf(await gateway.post("/v1/chat/completions", plain));
    assert.match(refused.error.message, /grammar/);
  });

  it("shows nothing of another request, and a client its own fields as it sent them", async () => {
    const metadata = { data: "B".repeat(17_000) };
    const sent = JSON.stringify({ model: "plain", input: "a", metadata });
    const answer: unknown = await (await gateway.post("/v1/responses", sent)).json();
    assert.deepEqual(isRecord(answer) && answer["metadata"], metadata);
  });

  it("with a million tokens as numbers is taken for its vectors", async () => {
    const input = JSON.stringify(Array(2048).fill(Array(512).fill(100_277)));
    const { answer } = await posted("/v1/embeddings", `{"model":"plain","dimensions":2,"input":${input}}`);
    assert.equal(answer.status, 200);
    assert.ok(received.endsWith(`"input":${input}}`));
  });

  it("with a byte order mark is taken without it", async () => {
    const { answer, text } = await posted("/v1/chat/completions", '\uFEFF{"model":"plain","messages":[]}');
    assert.equal(answer.status, 200, text);
    assert.ok(received.startsWith('{"model"'), received);
  });
});
