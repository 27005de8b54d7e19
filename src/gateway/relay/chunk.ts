const lastChunk = "0\r\n\r\n";

/**
 * `parts`, together `size` bytes, as one chunk of a chunked body (RFC 9112, 7.1) in one buffer; empty for no bytes,
 * since an empty chunk would end the body. `isLast`: with the body's end.
 */
export function asChunk(parts: readonly Buffer[], size: number, isLast: boolean): Buffer {
  const frame = size === 0 ? "" : `${size.toString(16)}\r\n`;
  const tail = `${size === 0 ? "" : "\r\n"}${isLast ? lastChunk : ""}`;
  const chunk = Buffer.allocUnsafe(frame.length + size + tail.length);
  let at = chunk.write(frame, 0, "latin1");
  for (const part of parts) at += part.copy(chunk, at);
  chunk.write(tail, at, "latin1");
  return chunk;
}
