import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ResponseHead } from "../../src/lib/exchange.ts";
import { ProtocolError, ResponseParser } from "../../src/engine-client/response-parser.ts";
import { cutAt } from "../support/form.ts";
import { fc } from "../support/fast-check.ts";

interface Read {
  readonly heads: ResponseHead[];
  readonly body: Buffer;
  readonly ends: number;
  readonly isKeptAlive: boolean;
  /** Whose words are part of the promise: it is no HTTP/1.1 response. */
  readonly error: string | undefined;
}

/** What a response is read as when it comes in these pieces. Anything but a ProtocolError is thrown on. */
function read(pieces: readonly Buffer[], isClosed = false): Read {
  const heads: ResponseHead[] = [];
  const body: Buffer[] = [];
  let ends = 0;
  let error: string | undefined;
  const parser = new ResponseParser({
    onHead: (head) => void heads.push(head),
    onData: (chunk) => void body.push(chunk),
    onEnd: () => void (ends += 1),
  });
  try {
    for (const piece of pieces) parser.push(piece);
    if (isClosed) parser.end();
  } catch (thrown) {
    if (!(thrown instanceof ProtocolError)) throw thrown;
    error = thrown.message;
  }
  return { heads, body: Buffer.concat(body), ends, isKeptAlive: parser.isKeptAlive, error };
}

const one = (text: string, isClosed = false): Read => read([Buffer.from(text, "latin1")], isClosed);

const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
const blankHeader = fc.constantFrom(
  "",
  "x-a: b\r\n",
  "x-a: b\r\nX-A:   c  \r\n",
  "content-type: text/event-stream\r\n",
  // As long as the names that are read.
  "connectiom: a\r\ntransfer-encodimg: b\r\n",
);
const early = fc.constantFrom("", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");

interface Sample {
  readonly wire: Buffer;
  readonly body: Buffer;
  readonly isKeptAlive: boolean;
  readonly endsByClosing: boolean;
}

const sample: fc.Arbitrary<Sample> = fc
  .record({
    body: bytes,
    form: fc.constantFrom("length", "chunked", "close"),
    header: blankHeader,
    first: early,
    chunks: fc.array(fc.integer({ min: 1, max: 80 }), { maxLength: 8 }),
    extension: fc.constantFrom("", ";a=b", " ; x"),
    trailer: fc.constantFrom("", "x-sum: 1\r\n"),
    minor: fc.constantFrom("0", "1"),
    connection: fc.constantFrom("", "connection: close\r\n", "Connection: Keep-Alive\r\n"),
  })
  .map(({ body, form, header, first, chunks, extension, trailer, minor, connection }) => {
    const lengths = {
      length: `content-length: ${body.length}\r\n`,
      chunked: "transfer-encoding: chunked\r\n",
      close: "",
    };
    const head = `${first}HTTP/1.${minor} 200 OK\r\n${header}${connection}${lengths[form]}\r\n`;
    const parts: Buffer[] = [Buffer.from(head)];
    if (form === "chunked") {
      let at = 0;
      for (const size of [...chunks, body.length]) {
        const piece = body.subarray(at, at + size);
        at += piece.length;
        if (piece.length > 0)
          parts.push(Buffer.from(`${piece.length.toString(16)}${extension}\r\n`), piece, Buffer.from("\r\n"));
      }
      parts.push(Buffer.from(`0\r\n${trailer}\r\n`));
    } else parts.push(body);
    const asks = connection === "" ? minor === "1" : /keep/i.test(connection);
    return { wire: Buffer.concat(parts), body, isKeptAlive: asks && form !== "close", endsByClosing: form === "close" };
  });

const cuts = fc.array(fc.nat(), { maxLength: 12 });

describe("ResponseParser", () => {
  it("gives the same head, bytes and end however a response is split", () => {
    fc.assert(
      fc.property(sample, cuts, ({ wire, body, isKeptAlive, endsByClosing }, at) => {
        // Somehow, and byte for byte.
        for (const pieces of [cutAt(wire, at), cutAt(wire, [...wire.keys()])]) {
          const got = read(pieces, endsByClosing);
          assert.equal(got.error, undefined);
          assert.deepEqual([got.heads.length, got.ends, got.isKeptAlive], [1, 1, isKeptAlive]);
          assert.deepEqual(got.body, body);
          assert.deepEqual(got.heads, one(wire.toString("latin1"), endsByClosing).heads);
        }
      }),
    );
  });

  it("never takes a response that was cut off for a whole one", () => {
    fc.assert(
      fc.property(sample, fc.nat(), cuts, ({ wire, endsByClosing }, cut, at) => {
        const part = wire.subarray(0, cut % wire.length);
        const got = read(cutAt(part, at), true);
        // An answer that ends by closing cannot be distinguished from a shorter answer, once its head is there.
        if (endsByClosing && got.heads.length > 0) return;
        assert.deepEqual([got.ends, got.error], [0, "the connection closed within a response"]);
      }),
    );
  });

  it("throws nothing but ProtocolError on damaged bytes, however they are split, and says the same", () => {
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255), fc.boolean()), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(sample, damage, cuts, ({ wire }, changes, at) => {
        let damaged = Buffer.from(wire);
        for (const [where, byte, isInserted] of changes) {
          const from = where % damaged.length;
          damaged = Buffer.concat([
            damaged.subarray(0, from),
            Buffer.from([byte]),
            damaged.subarray(from + (isInserted ? 0 : 1)),
          ]);
        }
        const whole = read([damaged], true);
        const parts = read(cutAt(damaged, at), true);
        assert.equal(parts.error === undefined, whole.error === undefined);
        assert.ok(parts.ends <= 1 && whole.ends <= 1);
        if (whole.error === undefined) assert.deepEqual(parts.body, whole.body);
      }),
    );
  });

  const chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  const malformed = {
    "another protocol": "SSH-2.0-OpenSSH\r\n\r\n",
    "HTTP/2": "HTTP/2 200\r\n\r\n",
    "no status": "HTTP/1.1 OK\r\n\r\n",
    "a status of four digits": "HTTP/1.1 2000 OK\r\n\r\n",
    "a header without a colon": "HTTP/1.1 200 OK\r\nx-a\r\n\r\n",
    "a header without a name": "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
    "a blank before the colon": "HTTP/1.1 200 OK\r\ncontent-length : 1\r\n\r\nx",
    "a folded header": "HTTP/1.1 200 OK\r\nx-a: b\r\n c\r\n\r\n",
    "a type with a character that no header may hold": "HTTP/1.1 200 OK\r\ncontent-type: text/plain\u0000\r\n\r\n",
    "a type in two lines": "HTTP/1.1 200 OK\r\ncontent-type: text/plain;\n a=b\r\n\r\n",
    "two lengths that differ": "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
    "a length and chunks": "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    "a length that is no number": "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "a length in hexadecimal": "HTTP/1.1 200 OK\r\ncontent-length: 0x10\r\n\r\n",
    "a coding we cannot read": "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
    "a switch of protocols": "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "a chunk without a size": `${chunked}xyz\r\n`,
    "a negative chunk": `${chunked}-1\r\n`,
    "a chunk longer than its size": `${chunked}1\r\nab\r\n`,
    "a chunk size beyond all measure": `${chunked}fffffffffffffff\r\n`,
    "bytes behind the response": "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxy",
    "bytes behind the last chunk": `${chunked}0\r\n\r\nHTTP`,
    "bytes behind one without a body": "HTTP/1.1 204 No Content\r\n\r\nx",
    "announcements without end": "HTTP/1.1 100 Continue\r\n\r\n".repeat(3000),
    "trailers without end": `${chunked}0\r\n${"x-a: b\r\n".repeat(9000)}`,
    "a head without end": `HTTP/1.1 200 OK\r\n${"x-a: b\r\n".repeat(9000)}`,
    "a chunk line without end": `${chunked}1${";a".repeat(5000)}`,
  };
  it("refuses what is no HTTP/1.1 response", () => {
    for (const [what, text] of Object.entries(malformed)) assert.notEqual(one(text).error, undefined, what);
  });

  it("ends a response without a body at once: by its status, or its length, however it is written", () => {
    for (const length of ["0", "00"])
      assert.equal(one(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`).ends, 1, length);
    for (const status of [204, 304]) {
      const { ends, error } = one(`HTTP/1.1 ${status} x\r\ncontent-length: 5\r\n\r\n`);
      assert.deepEqual([ends, error], [1, undefined]);
    }
  });

  it("reads another response after a reset", () => {
    const seen: number[] = [];
    const parser = new ResponseParser({
      onHead: ({ status }) => void seen.push(status),
      onData: () => undefined,
      onEnd: () => void seen.push(0),
    });
    parser.push(Buffer.from("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
    assert.equal(parser.hasBegun, true);
    parser.reset();
    assert.equal(parser.hasBegun, false);
    parser.push(Buffer.from("HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"));
    assert.deepEqual(seen, [200, 0, 404, 0]);
  });
});
