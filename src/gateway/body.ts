import type { IncomingMessage } from "node:http";
import { ApiError } from "../api/errors.ts";

/**
 * The whole body, in one buffer without copying where it came in one piece. A Content-Length beyond the limit is
 * refused before a byte is read. Throws ApiError `dispatch.payload_too_large`; `dispatch.invalid_request` when the
 * client stops half-way.
 */
export async function readRequestBody(request: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > limitBytes) throw tooLarge(limitBytes);
  return await new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > limitBytes) {
        chunks.length = 0;
        request.pause();
        request.removeAllListeners("data");
        reject(tooLarge(limitBytes));
        return;
      }
      chunks.push(chunk);
    });
    request.once("end", () => {
      const [only] = chunks;
      resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, size));
    });
    const broken = (): void => reject(new ApiError("dispatch.invalid_request", { message: "the body ended early" }));
    request.once("error", broken);
    request.once("close", broken);
  });
}

function tooLarge(limitBytes: number): ApiError {
  return new ApiError("dispatch.payload_too_large", { message: `the body is larger than ${limitBytes} bytes` });
}
