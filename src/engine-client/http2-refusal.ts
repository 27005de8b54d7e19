/** The code of Node's parser for the first bytes of a client that speaks HTTP/2 without negotiation. */
export const http2Preface = "HPE_PAUSED_H2_UPGRADE";

const settings = 4;
const goAway = 7;
/** HTTP_1_1_REQUIRED (RFC 9113, 7). */
const http11Required = 0xd;

/**
 * An answer that such a client understands: empty SETTINGS, then GOAWAY with the error that HTTP/1.1 is required and
 * `message` (RFC 9113, 6.5 and 6.8). It could not read an answer in HTTP/1.1.
 */
export function http2Refusal(message: string): Buffer {
  const reason = Buffer.alloc(8);
  reason.writeUInt32BE(http11Required, 4);
  return Buffer.concat([
    frame(settings, Buffer.alloc(0)),
    frame(goAway, Buffer.concat([reason, Buffer.from(message)])),
  ]);
}

/** A frame of the connection itself: stream 0, no flags. */
function frame(type: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  return Buffer.concat([head, payload]);
}
