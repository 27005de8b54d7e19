import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { ApiError } from "../../api/errors.ts";
import { STATUS_CODES } from "../../lib/node-http.ts";
import { newRequestId } from "./answer.ts";
import { lingerMs } from "./body.ts";

/** Of a request's headers together: behind a single sign-on a session's cookies alone have up to 30 KB. */
export const headerLimitBytes = 64 * 1024;

/**
 * Options of a server for clients that send slowly: also the header of a further request on a connection must arrive within
 * these times, which Node looks at each interval. A whole request may be an upload of hours.
 */
export const arrivalTimes = {
  headersTimeout: 10_000,
  requestTimeout: 6 * 3600 * 1000,
  connectionsCheckingInterval: 1000,
} as const;

/** A request that Node's parser refuses never becomes a request object: the envelope is written directly. */
export function refuseBytes(error: Error & { code?: string }, socket: Socket | Duplex, ms = lingerMs): void {
  if (!socket.writable || ("bytesWritten" in socket && socket.bytesWritten > 0)) {
    socket.destroy();
    return;
  }
  socket.end(refusalOf(error));
  // The parser must not make a request of further bytes: the client has been told that there is none.
  socket.removeAllListeners("data").on("data", () => undefined);
  // Further bytes must not reset the connection either, before the client has read the answer. Node has no limit for the
  // connection any more: a client that does not close it would keep it for ever.
  socket.resume();
  const limit = setTimeout(() => socket.destroy(), ms);
  limit.unref();
  socket.once("close", () => clearTimeout(limit));
}

function refusalOf({ code }: Error & { code?: string }): string {
  const [status, message] = faults[code ?? ""] ?? [400, "the request is no valid HTTP"];
  const body = JSON.stringify(new ApiError("dispatch.invalid_request", { status, message }).envelope());
  return (
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Bad Request"}\r\ncontent-type: application/json; charset=utf-8\r\n` +
    `content-length: ${Buffer.byteLength(body)}\r\nx-content-type-options: nosniff\r\ncontent-security-policy: sandbox\r\nconnection: close\r\nx-request-id: ${newRequestId()}\r\n\r\n${body}`
  );
}

/** By the code of Node's error. */
const faults: Readonly<Record<string, readonly [status: number, message: string]>> = {
  HPE_HEADER_OVERFLOW: [431, `the request's headers have more than ${headerLimitBytes / 1024} KiB`],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "the request came too slowly"],
};
