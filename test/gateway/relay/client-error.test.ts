import assert from "node:assert/strict";
import { describe, it } from "node:test";
import OpenAI from "openai";
import { clientError } from "../../../src/gateway/relay/client-error.ts";
import {
  engineEventFailure,
  engineRefusal,
  engineWords,
  exchangeFailure,
} from "../../../src/gateway/relay/engine-failure.ts";
import { connectionFailure, refusalFailure } from "../../../src/gateway/providers/provider-failure.ts";
import { ExchangeError } from "../../../src/lib/exchange.ts";
import { startGateway } from "../../support/gateway.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";

const overflow = "request (900 tokens) exceeds the available context size (512 tokens), try increasing it";

describe("a prompt beyond the context", () => {
  const inputTooLarge =
    "input (900 tokens) is too large to process. increase the physical batch size (current batch size: 512)";
  const limit = "This model's maximum context length is 512 tokens.";
  const tooLong = "prompt is too long: 900 tokens > 512 maximum";
  const exceeded = "context_length_exceeded";
  const counts = { n_prompt_tokens: 900, n_ctx: 512 };
  const said: readonly (readonly [engine: string, body: object, status?: number])[] = [
    ["llama-server", { error: { type: "exceed_context_size_error", message: overflow, ...counts } }],
    ["llama-server that embeds", { error: { code: 500, message: inputTooLarge, type: "server_error" } }, 500],
    ["OpenAI", { error: { message: `${limit} However, your messages resulted in 900 tokens.`, code: exceeded } }],
    ["vLLM", { object: "error", message: `${limit} However, your request has 900 input tokens.`, code: 400 }],
    ["SGLang", { message: "The input (900 tokens) is longer than the model's context length (512 tokens)." }],
    ["Anthropic", { type: "error", error: { message: tooLong } }],
  ];
  for (const [engine, body, status = 400] of said)
    it(`is reported in a single form, with llama.cpp's type and counts, whatever ${engine} says`, () => {
      const failure = clientError(status, body);
      const { details: _details, ...error } = failure?.envelope().error ?? { details: undefined };
      assert.equal(failure?.status, 400);
      const type = "exceed_context_size_error";
      const told = { code: "dispatch.rejected", message: overflow, type, openai_code: exceeded, ...counts };
      assert.deepEqual(error, told);
    });

  it("is reported without counts where the engine gives none", () => {
    const { message, familiar } = clientError(400, { error: { code: "context_length_exceeded", message: "no" } }) ?? {};
    assert.equal(message, "request exceeds the available context size, try increasing it");
    assert.deepEqual(familiar, { openai_code: "context_length_exceeded" });
  });

  it("is not confused with a limit of the answer that is too high", () => {
    const message =
      "'max_tokens' is too large: 900. This model's maximum context length is 512 tokens and your request has 100 input tokens.";
    assert.equal(clientError(400, { error: { message, type: "BadRequestError" } }), undefined);
  });

  it("is reported in the same form for a provider, and within a stream", () => {
    const body = Buffer.from(JSON.stringify({ error: { message: tooLong } }));
    const failure = refusalFailure("acme", { status: 400, retryAfter: undefined, body });
    const told = [failure.message, failure.type, failure.familiar.n_ctx];
    assert.deepEqual(told, [overflow, "exceed_context_size_error", 512]);
    const event = engineEventFailure(JSON.stringify({ error: { code: 500, message: inputTooLarge } }));
    assert.deepEqual([event.code, event.message], ["dispatch.rejected", overflow]);
  });
});

describe("a client's mistake that an engine reports as its own failure", () => {
  const noProjector = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj";
  const roles = "Conversation roles must alternate user/assistant/user/assistant/...";
  const noArguments =
    "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1";
  const mistakes: readonly (readonly [message: string, told: string, type?: string, status?: number])[] = [
    [noProjector, "the model takes texts alone: it has no projector (model.projector) for images or sound"],
    [
      '"prompt" elements must be a string, a list of tokens, a JSON object containing a prompt string, or a list of mixed strings & tokens.',
      "the input must be a text, a list of tokens, or a list of these",
    ],
    [
      'Failed to parse tools: Missing tool function: {}; tools = [\n  {\n    "type": "secret"\n  }\n]',
      "Failed to parse tools: Missing tool function: {}",
    ],
    [
      `Unable to generate parser for this template.\nWhile executing CallExpression at line 1, column 134 in source:\n...first %}{{ raise_exception('…') }}\n           ^\nError: Jinja Exception: ${roles}`,
      roles,
    ],
    [`${roles} at row 19, column 27:\n{%- if x %}\n  {{ raise_exception() }}`, roles],
    [noArguments, noArguments],
    [
      "no such voice in /srv/models/a.bin at http://10.0.0.1:8081/x",
      "no such voice in a.bin at …",
      "invalid_request_error",
    ],
    [
      "This server does not support embeddings.",
      "This server does not support embeddings.",
      "not_supported_error",
      501,
    ],
  ];
  for (const [message, told, type = "server_error", status = 500] of mistakes)
    it(`is 400 with its reason: ${told}`, () => {
      const failure = clientError(status, { error: { code: status, message, type } });
      assert.deepEqual([failure?.code, failure?.status, failure?.message], ["dispatch.rejected", 400, told]);
      assert.equal(failure?.details, undefined);
    });

  for (const [status, body] of [
    [500, { error: { code: 500, message: "cudaMalloc failed: out of memory", type: "server_error" } }],
    [500, { error: "no" }],
    [500, "Internal Server Error"],
    [502, { error: { message: "x", type: "invalid_request_error" } }],
    [503, { error: { message: "Loading model", type: "unavailable_error" } }],
    [400, { error: { message: "temperature must be a number", type: "invalid_request_error" } }],
  ] as const)
    it(`is not ${status} ${JSON.stringify(body)}`, () => assert.equal(clientError(status, body), undefined));

  for (const [body, told] of [
    [{ error: null, message: "null" }, "null"],
    [{ error: "", message: "empty" }, "empty"],
    [{ error: true, message: "a flag" }, "a flag"],
    [{ error: { message: null }, message: "outside" }, "outside"],
    [{ statusCode: 400, error: "Bad Request", message: "Fastify's" }, "Fastify's"],
    [{ detail: "no such model" }, "no such model"],
    [{ detail: { error: "validation_error", message: "no such voice" } }, "no such voice"],
    [{ detail: [{ loc: ["body", "speed"], msg: "must be less than 4" }] }, "speed: must be less than 4"],
  ] as const)
    it(`is where the server puts it: ${told}`, () => {
      const failure = engineRefusal(422, Buffer.from(JSON.stringify(body)), undefined);
      assert.deepEqual([failure.code, failure.status, failure.message], ["dispatch.rejected", 422, told]);
    });

  it("is not quoted where the engine failed, or says nothing", () => {
    for (const body of ["<html>", "{}", '{"detail":[]}', '{"detail":{}}', "[]"])
      assert.equal(engineRefusal(400, Buffer.from(body), undefined).message, "the engine answered 400", body);
    assert.equal(engineRefusal(500, Buffer.from("{}"), undefined).code, "dispatch.upstream_failed");
  });

  it("is not tried again by an SDK", async () => {
    const error = { code: 500, message: noProjector, type: "server_error" };
    await using engine = await scriptedEngine((response) => json(response, { error }, 500));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const client = new OpenAI({ apiKey: "x", baseURL: `${gateway.url}/v1`, maxRetries: 2 });
    const asked = client.chat.completions.create({ model: "primary", messages: [{ role: "user", content: "hi" }] });
    await assert.rejects(asked, { status: 400, code: "dispatch.rejected", message: /no projector/ });
    assert.equal(engine.seen.length, 1);
  });
});

it("a connection that this process cannot open is its own shortage, not a failure of the engine or provider", () => {
  const shortage = new ExchangeError("shortage", "connect EMFILE");
  const { failure, outcome } = connectionFailure("acme", shortage, false);
  for (const { status, code, message } of [exchangeFailure(shortage), failure]) {
    assert.deepEqual([status, code], [503, "system.overloaded"]);
    assert.match(message, /^the gateway .*RLIMIT_NOFILE/);
  }
  assert.equal(outcome, "shortage");
});

describe("the engine's own text, for administrators", () => {
  const long = "é".repeat(3000);
  const cases: readonly (readonly [what: string, status: number, body: string, text: string | undefined])[] = [
    ["the sentence of an error", 500, '{"error":{"message":"CUDA error: out of memory"}}', "CUDA error: out of memory"],
    ["a text that is no JSON", 502, "Bad Gateway\n", "Bad Gateway"],
    ["JSON of another shape", 500, '{"trace":"at /srv/x"}', '{"trace":"at /srv/x"}'],
    ["no conversation", 500, '{"error":{"message":"Failed; messages = [{\\"a\\":\\"my prompt\\"}]"}}', "Failed"],
    [
      "no value that FastAPI refuses",
      422,
      '{"detail":[{"msg":"too long","loc":["body","x"],"input":"p"}]}',
      "x: too long",
    ],
    ["no secret", 500, "the key sk-abcdefghijklmnop is unknown", "the key *** is unknown"],
    ["2 KiB at most, in whole characters", 500, `a${long}`, `a${"é".repeat(1023)}`],
    ["nothing of refused credentials", 401, "wrong key my-own-key", undefined],
    ["nothing of an empty body", 500, " ", undefined],
  ];
  for (const [what, status, body, text] of cases)
    it(`has ${what}`, () => assert.equal(engineWords(status, Buffer.from(body)), text));

  it("is no part of the answer", () => {
    const event = engineEventFailure('{"error":{"code":500,"message":"ggml abort"}}');
    assert.equal(event.engineText, "ggml abort");
    assert.ok(!JSON.stringify(event.envelope()).includes("ggml"));
    const body = Buffer.from('{"error":{"message":"upstream exploded"}}');
    const refusal = refusalFailure("acme", { status: 500, retryAfter: undefined, body });
    assert.equal(refusal.engineText, "upstream exploded");
    assert.ok(!JSON.stringify(refusal.envelope()).includes("exploded"));
  });
});
