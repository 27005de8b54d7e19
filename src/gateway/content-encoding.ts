import type { IncomingMessage } from "node:http";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { ApiError } from "../api/errors.ts";
import type { BodyLimits } from "./body.ts";

const decoders = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
} as const;

/**
 * The body as it was before its `content-encoding`; at most `bodyBytes`, however small it came, and counted in the
 * budget while it grows. Rejects with ApiError `dispatch.unsupported_media_type`, `dispatch.payload_too_large`,
 * `system.overloaded` or `dispatch.invalid_request`.
 */
export async function decodeBody(
  request: Pick<IncomingMessage, "headers">,
  body: Buffer,
  { bodyBytes, budget }: BodyLimits,
): Promise<Buffer> {
  const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") return body;
  if (!isKnown(encoding)) {
    throw new ApiError("dispatch.unsupported_media_type", {
      message: `the content encoding is none of ${Object.keys(decoders).join(", ")}`,
    });
  }
  const decoder = decoders[encoding]();
  const pieces: AsyncIterable<Buffer> = decoder;
  const chunks: Buffer[] = [];
  let size = 0;
  let counted = 0;
  decoder.end(body);
  try {
    for await (const piece of pieces) {
      size += piece.length;
      if (size > bodyBytes) {
        const message = `the body is larger than ${bodyBytes} bytes once it is unpacked`;
        throw new ApiError("dispatch.payload_too_large", { message });
      }
      budget.take(piece.length);
      counted = size;
      chunks.push(piece);
    }
    return Buffer.concat(chunks, size);
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError("dispatch.invalid_request", { message: `the body is not valid ${encoding}` });
  } finally {
    budget.give(counted);
  }
}

function isKnown(encoding: string): encoding is keyof typeof decoders {
  return Object.hasOwn(decoders, encoding);
}
