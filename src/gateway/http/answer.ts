import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ApiError } from "../../api/errors.ts";
import { atEndOfTurn } from "../../lib/end-of-turn.ts";
import { diskFailure } from "./disk-failure.ts";
import { plainErrors, type ErrorForm } from "./error-form.ts";

const idPattern = /^[A-Za-z0-9._-]{1,128}$/;
const prefix = randomBytes(5).toString("hex");
let count = 0;

/** The client's `x-request-id` when it is harmless, else a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && idPattern.test(given) ? given : newRequestId();
}

/** Unique among the running gateways; short, since it is in every answer. */
export function newRequestId(): string {
  count = (count + 1) % 0xffffffff;
  return `${prefix}-${count.toString(36)}`;
}

/** The error that a client may see for any failure. The message of an unknown failure is only logged. */
export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : diskFailure(error, "do this");
}

/**
 * Answers with the envelope, or with the protocol's own `form`; does nothing when the client is gone or an answer has
 * begun.
 */
export function sendError(
  response: ServerResponse,
  error: ApiError,
  requestId: string,
  form: ErrorForm = plainErrors,
): void {
  if (response.headersSent || response.destroyed) return;
  const body = JSON.stringify(form.body(error));
  response.writeHead(error.status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(body),
    "x-request-id": requestId,
    ...(form.idHeader === undefined ? {} : { [form.idHeader]: requestId }),
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox",
    ...(error.code === "dispatch.payload_too_large" ? { connection: "close" } : {}),
    ...error.headers,
  });
  atEndOfTurn({ flush: () => void response.end(body) });
}
