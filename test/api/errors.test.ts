import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError, errorTable, errorType } from "../../src/api/errors.ts";

/** What clients may rely on. A change here is a change of the contract. */
const contract = {
  "auth.required": 401,
  "auth.invalid": 401,
  "auth.forbidden": 403,
  "auth.throttled": 429,
  "slot.not_found": 404,
  "slot.not_ready": 503,
  "slot.failed": 503,
  "slot.disabled": 503,
  "slot.overloaded": 429,
  "slot.illegal_transition": 409,
  "slot.already_exists": 409,
  "slot.builtin": 409,
  "model.not_found": 404,
  "model.not_loaded": 404,
  "model.in_use": 409,
  "model.insufficient_disk": 507,
  "model.checksum_mismatch": 502,
  "model.pull_failed": 502,
  "model.unsupported_format": 422,
  "dispatch.invalid_request": 400,
  "dispatch.missing_model": 400,
  "dispatch.capability_mismatch": 400,
  "dispatch.payload_too_large": 413,
  "dispatch.unsupported_media_type": 415,
  "dispatch.rejected": 400,
  "dispatch.upstream_failed": 502,
  "dispatch.upstream_unavailable": 502,
  "dispatch.upstream_timeout": 504,
  "config.invalid": 422,
  "config.read_only": 409,
  "config.changed": 409,
  "config.fit": 409,
  "system.not_found": 404,
  "system.method_not_allowed": 405,
  "system.overloaded": 503,
  "system.not_implemented": 501,
  "system.internal": 500,
};

const types = {
  invalid_request_error: [400, 404, 405, 409, 413, 415, 422],
  authentication_error: [401],
  permission_error: [403],
  rate_limit_error: [429],
  server_error: [500, 501, 502, 503, 504, 507],
};

describe("errors", () => {
  it("have the codes and statuses of the contract", () => {
    const table = Object.fromEntries(Object.entries(errorTable).map(([code, [status]]) => [code, status]));
    assert.deepEqual(table, contract);
  });

  it("have a message for a person each", () => {
    for (const [code, [, message]] of Object.entries(errorTable)) assert.match(message, /^[A-Z].{10,}[^.]$/, code);
  });

  it("have the type of their status", () => {
    for (const [type, statuses] of Object.entries(types))
      for (const status of statuses) assert.equal(errorType(status), type, String(status));
  });

  it("make an envelope with the table's message, or with their own message and details", () => {
    assert.deepEqual(new ApiError("model.not_found").envelope(), {
      error: {
        code: "model.not_found",
        message: "The model matches no slot, registry ref or upstream",
        type: "invalid_request_error",
        openai_code: "model_not_found",
        param: "model",
      },
    });
    const error = new ApiError("slot.failed", { message: "it crashed", details: { slot: "a" }, cause: new Error("x") });
    assert.deepEqual(error.envelope(), {
      error: { code: "slot.failed", message: "it crashed", type: "server_error", details: { slot: "a" } },
    });
  });

  it("keep an engine's status where the code's own is replaced, with the type of that status", () => {
    const error = new ApiError("dispatch.rejected", { status: 429 });
    assert.deepEqual([error.status, error.envelope().error.type], [429, "rate_limit_error"]);
    assert.equal(new ApiError("dispatch.rejected").status, 400);
  });

  it("forbid clients to repeat a request that can never succeed, beside their own headers", () => {
    const headers = { "x-a": "1" };
    for (const code of ["system.not_implemented", "slot.disabled"] as const)
      assert.deepEqual(new ApiError(code, { headers }).headers, { "x-should-retry": "false", ...headers });
    assert.deepEqual(new ApiError("slot.not_ready", { headers }).headers, headers);
  });
});
