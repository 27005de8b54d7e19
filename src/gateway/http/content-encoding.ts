import type { IncomingMessage } from "node:http";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { ApiError } from "../../api/errors.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { release } from "../../lib/release.ts";
import type { BodyLimits } from "./body.ts";

/** Each piece has its own memory, which can be released once the piece is copied. */
const options = { chunkSize: 65_536 };

const decoders = {
  gzip: () => createGunzip(options),
  "x-gzip": () => createGunzip(options),
  deflate: () => createInflate(options),
  br: () => createBrotliDecompress(options),
  zstd: () => createZstdDecompress(options),
} as const;

/**
 * The body before its `content-encoding`; at most `bodyBytes`, for any packed size. It replaces the packed body in the
 * charge. Rejects with ApiError `dispatch.unsupported_media_type`, `dispatch.payload_too_large`, `system.overloaded` or
 * `dispatch.invalid_request`.
 */
export async function decodeBody(
  request: Pick<IncomingMessage, "headers">,
  body: Buffer,
  { bodyBytes, charge }: BodyLimits,
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
  const gathered = new GatheredBytes();
  decoder.end(body);
  try {
    for await (const piece of pieces) {
      if (gathered.size + piece.length > bodyBytes) {
        const message = `the body is larger than ${bodyBytes} bytes once it is unpacked`;
        throw new ApiError("dispatch.payload_too_large", { message });
      }
      charge.take(piece.length);
      if (gathered.add(piece)) release(piece);
    }
    const whole = gathered.take();
    charge.reduceTo(whole.length);
    charge.holds(whole);
    return whole;
  } catch (error) {
    gathered.clear();
    charge.end();
    if (error instanceof ApiError) throw error;
    throw new ApiError("dispatch.invalid_request", { message: `the body is not valid ${encoding}` });
  }
}

function isKnown(encoding: string): encoding is keyof typeof decoders {
  return Object.hasOwn(decoders, encoding);
}
