import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError, errorTable, type ErrorCode } from "../../../src/api/errors.ts";
import { messagesErrors } from "../../../src/gateway/protocols/messages-errors.ts";
import { responsesErrors } from "../../../src/gateway/protocols/responses-errors.ts";

const failure = new ApiError("dispatch.upstream_failed", { message: "the engine died" });
const envelope = { code: "dispatch.upstream_failed", message: "the engine died", type: "server_error" };

describe("errors by protocol", () => {
  it("are an `error` event in Responses, flat and nested", () => {
    const event = responsesErrors.event(failure, 0);
    const [, data] = /^event: error\ndata: ([^\n]*)\n\n$/.exec(event) ?? [];
    const { code, message } = envelope;
    assert.deepEqual(JSON.parse(data ?? ""), {
      type: "error",
      code,
      message,
      param: null,
      sequence_number: 0,
      error: { ...envelope, param: null },
    });
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
  for (const [code, type] of types)
    it(`are ${type} for ${code} in Messages`, () => {
      const details = { slot: "primary" };
      const [, message] = errorTable[code];
      const familiar = code === "model.not_found" ? { openai_code: "model_not_found", param: "model" } : {};
      const error = { type, code, message, ...familiar, details };
      assert.deepEqual(messagesErrors.body(new ApiError(code, { details })), { type: "error", error });
    });
});
