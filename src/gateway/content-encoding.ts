import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, zstdDecompress } from "node:zlib";
import { ApiError } from "../api/errors.ts";
import { errorCode } from "../lib/error-code.ts";

const decoders = {
  gzip: promisify(gunzip),
  "x-gzip": promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
} as const;

/**
 * The body as it was before its `content-encoding`; at most `limitBytes`, however small it came. Rejects with ApiError
 * `dispatch.unsupported_media_type`, `dispatch.payload_too_large` or `dispatch.invalid_request`.
 */
export async function decodeBody(request: IncomingMessage, body: Buffer, limitBytes: number): Promise<Buffer> {
  const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") return body;
  if (!isKnown(encoding)) {
    throw new ApiError("dispatch.unsupported_media_type", {
      message: `the content encoding is none of ${Object.keys(decoders).join(", ")}`,
    });
  }
  try {
    return await decoders[encoding](body, { maxOutputLength: limitBytes });
  } catch (error) {
    if (errorCode(error) === "ERR_BUFFER_TOO_LARGE") {
      throw new ApiError("dispatch.payload_too_large", {
        message: `the body is larger than ${limitBytes} bytes once it is unpacked`,
      });
    }
    throw new ApiError("dispatch.invalid_request", { message: `the body is not valid ${encoding}` });
  }
}

function isKnown(encoding: string): encoding is keyof typeof decoders {
  return Object.hasOwn(decoders, encoding);
}
