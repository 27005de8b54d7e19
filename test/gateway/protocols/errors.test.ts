import assert from "node:assert/strict";
import { describe, it } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { ApiError, errorTable, type ErrorCode } from "../../../src/api/errors.ts";
import { messagesErrors } from "../../../src/gateway/protocols/messages-errors.ts";
import { responsesErrors } from "../../../src/gateway/protocols/responses-errors.ts";
import { plainErrors } from "../../../src/gateway/http/error-form.ts";

const failure = new ApiError("dispatch.upstream_failed", { message: "the engine died" });
const envelope = { code: "dispatch.upstream_failed", message: "the engine died", type: "server_error" };

/** What the official SDK makes of a stream that ends so; no socket is opened. */
function client(sent: string): OpenAI {
  return new OpenAI({
    apiKey: "none",
    baseURL: "http://127.0.0.1:9/v1",
    maxRetries: 0,
    fetch: () => Promise.resolve(new Response(sent, { headers: { "content-type": "text/event-stream" } })),
  });
}

describe("errors by protocol", () => {
  it("are envelopes before the first byte", () => {
    assert.deepEqual(plainErrors.body(failure), { error: envelope });
    assert.deepEqual(responsesErrors.body(failure), { error: envelope });
  });

  it("are one data event in a chat", () => {
    assert.equal(plainErrors.event(failure, 0), `data: ${JSON.stringify({ error: envelope })}\n\n`);
  });

  it("make the SDK's chat stream throw", async () => {
    const stream = await client(plainErrors.event(failure, 0)).chat.completions.create({
      model: "m",
      messages: [],
      stream: true,
    });
    await assert.rejects(Array.fromAsync(stream), { name: "Error", code: envelope.code, message: /the engine died/ });
  });

  it("are an `error` event in Responses, flat and nested", () => {
    const [event, data, ...rest] = responsesErrors.event(failure, 0).split("\n");
    assert.equal(event, "event: error");
    assert.deepEqual(rest, ["", ""]);
    assert.deepEqual(JSON.parse((data ?? "").slice("data: ".length)), {
      type: "error",
      code: envelope.code,
      message: envelope.message,
      param: null,
      sequence_number: 0,
      error: { ...envelope, param: null },
    });
  });

  it("make the SDK's Responses stream throw", async () => {
    const stream = await client(responsesErrors.event(failure, 0)).responses.create({
      model: "m",
      input: "x",
      stream: true,
    });
    await assert.rejects(Array.fromAsync(stream), { code: envelope.code, message: /the engine died/ });
  });

  const types: readonly (readonly [code: ErrorCode, type: string])[] = [
    ["dispatch.invalid_request", "invalid_request_error"],
    ["dispatch.capability_mismatch", "invalid_request_error"],
    ["auth.required", "authentication_error"],
    ["auth.forbidden", "permission_error"],
    ["model.not_found", "not_found_error"],
    ["dispatch.payload_too_large", "request_too_large"],
    ["slot.overloaded", "rate_limit_error"],
    ["slot.not_ready", "overloaded_error"],
    ["dispatch.upstream_timeout", "timeout_error"],
    ["dispatch.upstream_failed", "api_error"],
    ["system.not_implemented", "api_error"],
  ];
  for (const [code, type] of types) {
    it(`are ${type} for ${code} in Messages`, () => {
      const failed = new ApiError(code, { details: { slot: "primary" } });
      const [, message] = errorTable[code];
      const familiar = code === "model.not_found" ? { openai_code: "model_not_found", param: "model" } : {};
      assert.deepEqual(messagesErrors.body(failed), {
        type: "error",
        error: { type, code, message, ...familiar, details: { slot: "primary" } },
      });
    });
  }

  it("make the SDK's Messages stream throw", async () => {
    const client = new Anthropic({
      apiKey: "none",
      baseURL: "http://127.0.0.1:9",
      maxRetries: 0,
      fetch: () =>
        Promise.resolve(
          new Response(messagesErrors.event(failure, 0), { headers: { "content-type": "text/event-stream" } }),
        ),
    });
    const stream = await client.messages.create({ model: "m", max_tokens: 1, messages: [], stream: true });
    await assert.rejects(Array.fromAsync(stream), (error) => {
      assert.ok(error instanceof Anthropic.APIError);
      assert.match(error.message, /the engine died/);
      assert.equal(error.type, "api_error");
      return true;
    });
  });
});
