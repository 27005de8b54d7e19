import { ApiError } from "../../api/errors.ts";
import { maskedText } from "../../api/masked-text.ts";
import type { ExchangeError } from "../../lib/exchange.ts";
import { errorIn } from "../../engines/error-body.ts";
import { isParseable, parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import type { AnswerTranslation } from "./answer-format.ts";
import { showable, clientError } from "./client-error.ts";

/** The kept part of an engine's error, as UTF-8. */
const keptBytes = 2048;
/** Longer than what is kept: a secret that begins within the kept part is masked whole if it ends within this. */
const readChars = 16_384;
/** llama.cpp adds the whole conversation to some of its errors. */
const quotedRequest = /; (?:messages|tools) = .*$/s;

/** The message for an engine's answer that is no JSON although its type says so. */
export const notJson = "the answer is not JSON";

/** The client's error when the engine gave no complete answer. */
export function exchangeFailure({ phase, message }: ExchangeError): ApiError {
  switch (phase) {
    case "connect":
      return new ApiError("dispatch.upstream_unavailable", { message: "the engine does not accept connections" });
    case "shortage":
      return shortageFailure();
    case "timeout":
      return new ApiError("dispatch.upstream_timeout", { message: "the engine did not answer in time" });
    case "closed":
      return new ApiError("dispatch.upstream_failed", {
        message: "the engine closed the connection without an answer",
      });
    case "broken":
      return new ApiError("dispatch.upstream_failed", { message: `the answer is broken: ${message}` });
    default:
      return phase satisfies never;
  }
}

/** The gateway may open no more connections: neither an engine nor a provider is at fault. */
export function shortageFailure(): ApiError {
  return new ApiError("system.overloaded", {
    message: "the gateway may open no more files or connections; see RLIMIT_NOFILE",
    headers: { "retry-after": "5" },
  });
}

/**
 * The engine's own refusal in our envelope: its 4xx keeps status and message, and so does a 5xx for a client's mistake,
 * as a 400; any other is a failure of the backend, of which the client gets only the status (CONTRACT "Errors").
 * `request` is the refused body.
 */
export function engineRefusal(status: number, body: Buffer, request: Buffer | undefined): ApiError {
  // The engine's word must do for a request that is too large to be parsed here.
  if (request !== undefined && isParseable(request) && !isJson(request)) return invalidJson(request);
  // No credentials of a client reach an engine: refused credentials are ours.
  if (status === 401)
    return new ApiError("dispatch.upstream_failed", { message: "the engine refused Berth's own key" });
  if (status < 400) return new ApiError("dispatch.upstream_failed", { message: `the engine answered ${status}` });
  const upstream = parseForeign(body);
  const mistake = clientError(status, upstream);
  if (mistake !== undefined) return mistake;
  if (status >= 500) return new ApiError("dispatch.upstream_failed", { message: `the engine answered ${status}` });
  return new ApiError("dispatch.rejected", {
    status,
    message: (errorIn(upstream).message ?? `the engine answered ${status}`).slice(0, 2000),
    details: { upstream: showable(upstream) ?? body.toString("utf8", 0, 2000) },
  });
}

/**
 * Returns the engine's own text about its error, for administrators alone: its sentence, else its body, without what looks
 * like a secret. Undefined for an empty body, and for refused credentials: such an answer may repeat the key.
 */
export function engineWords(status: number, body: Buffer | string): string | undefined {
  if (status === 401) return undefined;
  const text = body.toString().slice(0, readChars);
  const said = (errorIn(parseForeign(body)).message ?? text).slice(0, readChars).replace(quotedRequest, "");
  const bytes = Buffer.from(maskedText(said).trim());
  // A copy: a part of a text keeps the whole text alive. The last character may be cut.
  return bytes.toString("utf8", 0, keptBytes).replace(/�+$/, "") || undefined;
}

/** An error event of an engine's stream, in our envelope. */
export function engineEventFailure(json: string): ApiError {
  const event = parseForeign(json);
  const error = typeof event === "object" && event !== null && "error" in event ? event.error : undefined;
  const code = typeof error === "object" && error !== null && "code" in error ? Number(error.code) : 500;
  const refusal = code >= 400 ? engineRefusal(code, Buffer.from(json), undefined) : undefined;
  const failure =
    refusal?.code === "dispatch.rejected"
      ? refusal
      : new ApiError("dispatch.upstream_failed", { message: "the answer ends with a failure" });
  failure.engineText = engineWords(code, json);
  return failure;
}

/**
 * Throws the failure that an engine reports with a success status, as `{"error": …}` alone. A translation without streams
 * reads such answers itself.
 */
export function refuseFailure(body: Buffer, translation: AnswerTranslation | undefined): void {
  if (translation !== undefined && translation.stream === undefined) return;
  if (!/^\s*\{\s*"error"\s*:/.test(body.toString("latin1", 0, 64))) return;
  const answer = parseForeign(body);
  const isFailure = isRecord(answer) && Object.keys(answer).length === 1 && Boolean(answer["error"]);
  if (isFailure) throw engineEventFailure(body.toString());
}

/** The error for a body that is no JSON object. */
export function invalidJson(body: Buffer): ApiError {
  const message =
    body.length === 0
      ? "the body is empty"
      : isJson(body)
        ? "the body must be a JSON object"
        : "the body is not valid JSON";
  return new ApiError("dispatch.invalid_request", { message });
}

function isJson(body: Buffer): boolean {
  return parseForeign(body) !== undefined;
}
