import type { IncomingMessage } from "node:http";
import { ApiError } from "../api/errors.ts";

/** How long a refused upload is still read, so that its sender gets to the answer. */
const lingerMs = 10_000;
/** A sender that is silent this long in the middle of its body has gone, or means harm. */
const silenceMs = 30_000;

/**
 * The whole body, in one buffer without copying where it came in one piece. A Content-Length beyond the limit is
 * refused before a byte is read. Throws ApiError `dispatch.payload_too_large`; `dispatch.invalid_request` when the
 * client stops half-way, with status 408 when it falls silent.
 */
export function readRequestBody(
  request: IncomingMessage,
  limitBytes: number,
  idleMs: number = silenceMs,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const declared = Number(request.headers["content-length"] ?? 0);
    if (declared > limitBytes) {
      reject(tooLarge(limitBytes));
      discard(request);
      return;
    }
    const chunks: Buffer[] = [];
    let size = 0;
    const silence = setTimeout(() => {
      chunks.length = 0;
      reject(new ApiError("dispatch.invalid_request", { status: 408, message: "the body came too slowly" }));
      discard(request);
    }, idleMs);
    silence.unref();
    const onData = (chunk: Buffer): void => {
      silence.refresh();
      size += chunk.length;
      if (size <= limitBytes) {
        chunks.push(chunk);
        return;
      }
      clearTimeout(silence);
      chunks.length = 0;
      request.off("data", onData);
      reject(tooLarge(limitBytes));
      discard(request);
    };
    request.on("data", onData);
    request.once("end", () => {
      clearTimeout(silence);
      const [only] = chunks;
      resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, size));
    });
    const broken = (): void => {
      clearTimeout(silence);
      if (!request.complete) reject(new ApiError("dispatch.invalid_request", { message: "the body ended early" }));
    };
    request.once("error", broken);
    request.once("close", broken);
  });
}

/**
 * Reads on and keeps nothing. Closing now would reset the connection and could take the answer away from a client
 * that writes everything before it reads.
 */
function discard(request: IncomingMessage): void {
  request.on("error", () => undefined);
  request.resume();
  const limit = setTimeout(() => request.destroy(), lingerMs);
  limit.unref();
  request.once("close", () => clearTimeout(limit));
}

function tooLarge(limitBytes: number): ApiError {
  return new ApiError("dispatch.payload_too_large", { message: `the body is larger than ${limitBytes} bytes` });
}
