import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { ApiError } from "../../api/errors.ts";
import { STATUS_CODES } from "../../lib/node-http.ts";
import { sendError } from "../http/answer.ts";

/** A browser asks for name and password itself, and keeps them for this origin; no script of a page can read them. */
const challenge = 'Basic realm="Berth: any name, a token as the password", charset="UTF-8"';

/** Says why there is no page: a page for people, the envelope for programs. */
export function refusePage(
  request: IncomingMessage,
  response: ServerResponse,
  reason: ApiError,
  requestId: string,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const failure = withChallenge(reason);
  if (!/\btext\/html\b/.test(request.headers.accept ?? "")) {
    sendError(response, failure, requestId);
    return;
  }
  const body = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Berth</title></head><body><main><h1>This page of an engine is not here</h1><p>${escaped(failure.message)}</p></main></body></html>`;
  response.writeHead(failure.status, {
    ...failure.headers,
    "content-type": "text/html; charset=utf-8",
    "content-length": Buffer.byteLength(body),
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "cache-control": "no-store",
    "x-request-id": requestId,
    "x-content-type-options": "nosniff",
  });
  response.end(body);
}

/** Says why a WebSocket is not opened, and closes the connection. */
export function refuseUpgrade(socket: Duplex, reason: ApiError): void {
  const failure = withChallenge(reason);
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify(failure.envelope());
  const lines = Object.entries({
    ...failure.headers,
    "content-type": "application/json; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const status = `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status] ?? "Error"}\r\n`;
  socket.end(`${status}${lines.join("")}\r\n${body}`);
}

function withChallenge(failure: ApiError): ApiError {
  const { code, status, message, headers } = failure;
  if (status !== 401) return failure;
  return new ApiError(code, { message, headers: { ...headers, "www-authenticate": challenge } });
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** The engine was silent for too long. */
export class EngineTimeout extends Error {}

/** The failure of a request that the engine of a slot has not answered. */
export function failureOf(slot: string, error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const engine = `the engine of slot ${slot}`;
  return error instanceof EngineTimeout
    ? new ApiError("dispatch.upstream_timeout", { message: `${engine} did not answer in time` })
    : new ApiError("dispatch.upstream_unavailable", {
        message: `${engine} did not answer; its log may say why`,
        cause: error,
      });
}
