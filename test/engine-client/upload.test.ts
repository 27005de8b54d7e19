import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ExchangeError, type ExchangeRequest, type Upload } from "../../src/lib/exchange.ts";
import { EnginePool } from "../../src/engine-client/client.ts";
import { AnswerTooLarge, wholeAnswer } from "../../src/lib/whole-answer.ts";
import { closingEngine, type ClosingEngine } from "../support/closing-engine.ts";
import { freePort } from "../support/free-port.ts";
import { rejectionOf } from "../support/rejection.ts";
import { tcpServer } from "../support/tcp-server.ts";
import { until } from "../support/until.ts";

const limits = { timeoutMs: 10_000, limitBytes: 1000 };
const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

const poolTo = (port: number): EnginePool => new EnginePool({ host: "127.0.0.1", port });
const post = (body: ExchangeRequest["body"]): ExchangeRequest => ({ method: "POST", path: "/u", accept: "*/*", body });

interface Source {
  readonly request: ExchangeRequest;
  opened: number;
  read: number;
}

/** An upload of these parts; `length`: it says how long it is. `beforeFirst` runs when the engine may have the head alone. */
function uploadOf(
  parts: readonly (string | Error)[],
  length?: number,
  beforeFirst: () => void | Promise<void> = () => undefined,
): Source {
  const body = (): Upload => {
    source.opened += 1;
    const headers = { "content-type": "text/x", ...(length === undefined ? {} : { "content-length": length }) };
    return { headers, body: chunks() };
  };
  const source = { opened: 0, read: 0, request: post(body) };
  async function* chunks(): AsyncGenerator<Buffer> {
    await beforeFirst();
    for (const part of parts) {
      source.read += 1;
      if (part instanceof Error) throw part;
      yield Buffer.from(part);
    }
  }
  return source;
}

describe("an upload over our own transport", () => {
  it("is sent in chunks where its length is unknown, and with its length otherwise", async () => {
    await using server = await tcpServer((socket, text) => {
      if (text.endsWith("0\r\n\r\n") || text.endsWith("abcde")) socket.write(ok);
    });
    const pool = poolTo(server.port);
    await wholeAnswer(pool, uploadOf(["abc", "", "de"]).request, limits);
    await wholeAnswer(pool, uploadOf(["abc", "de"], 5).request, limits);
    const host = `host: 127.0.0.1:${server.port}\r\ncontent-type: text/x\r\n`;
    const rest = "connection: close\r\naccept: */*\r\n\r\n";
    assert.deepEqual(server.received, [
      `POST /u HTTP/1.1\r\n${host}transfer-encoding: chunked\r\n${rest}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n`,
      `POST /u HTTP/1.1\r\n${host}content-length: 5\r\n${rest}abcde`,
    ]);
    assert.equal(server.sockets.length, 2, "a connection of its own for each");
    await until("they are closed", () => server.sockets.every((socket) => socket.readyState !== "open"));
  });

  it("is not opened where the engine refuses the connection", async () => {
    const source = uploadOf(["abc"]);
    const error = await rejectionOf(wholeAnswer(poolTo(await freePort()), source.request, limits), ExchangeError);
    assert.deepEqual([error.phase, source.opened], ["connect", 0]);
  });

  it("ends with its own error where it breaks, and the engine sees no whole body", async () => {
    await using server = await tcpServer(() => undefined);
    const broken = new Error("the client left");
    const error = await rejectionOf(wholeAnswer(poolTo(server.port), uploadOf(["abc", broken]).request, limits), Error);
    assert.equal(error, broken);
    await until("the connection is closed", () => server.sockets[0]?.readyState !== "open");
    assert.doesNotMatch(server.received[0] ?? "", /0\r\n\r\n$/);
  });
});

describe("wholeAnswer", () => {
  it("gives up at its limits, and when it is aborted", async () => {
    await using silent = await tcpServer(() => undefined);
    await using wordy = await tcpServer(
      (socket) => void socket.write(ok.replace("2\r\n\r\nok", `9\r\n\r\n${"x".repeat(9)}`)),
    );
    const get = { method: "GET", path: "/", accept: "*/*" } as const;
    const slow = await rejectionOf(wholeAnswer(poolTo(silent.port), get, { ...limits, timeoutMs: 20 }), ExchangeError);
    assert.equal(slow.phase, "timeout");
    await rejectionOf(wholeAnswer(poolTo(wordy.port), get, { ...limits, limitBytes: 8 }), AnswerTooLarge);
    const gone = new Error("gone");
    const signal = AbortSignal.abort(gone);
    assert.equal(await rejectionOf(wholeAnswer(poolTo(silent.port), get, { ...limits, signal }), Error), gone);
    await until("all are closed", () =>
      [...silent.sockets, ...wordy.sockets].every(({ readyState }) => readyState !== "open"),
    );
  });
});

const refusal = "HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno";

/** The status of the answer over a kept-alive connection, where the pool has one. */
async function statusOf(pool: EnginePool, body: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let status = 0;
  pool.send(
    post([Buffer.from(body)]),
    { timeouts: { firstByteMs: 10_000, idleMs: 10_000 } },
    {
      onHead: (head) => (status = head.status),
      onData: () => undefined,
      onEnd: () => resolve(status),
      onError: reject,
    },
  );
  return await promise;
}

const tenOf = (beforeFirst: () => void | Promise<void>, isLengthKnown = true): Source =>
  uploadOf(Array<string>(10).fill("x"), isLengthKnown ? 10 : undefined, beforeFirst);

describe("an engine that ends a request before it has all of it", () => {
  let engine: ClosingEngine;
  before(async () => void (engine = await closingEngine(ok)));
  after(() => engine[Symbol.asyncDispose]());

  it("has its answer passed on where that came before a write failed", async () => {
    const over = Promise.withResolvers<void>();
    const source = tenOf(() => {
      engine.end(refusal);
      return over.promise;
    });
    const { status, body } = await wholeAnswer(poolTo(engine.port), source.request, limits);
    over.resolve();
    assert.deepEqual([status, body.toString()], [413, "no"]);
    await until("the next part is written", () => source.read > 0);
    assert.equal(source.read, 1, "the rest of the upload is not read");
  });

  for (const isLengthKnown of [true, false])
    for (const isReset of [true, false])
      for (const text of [refusal, ""])
        it(`is reported as one that closed the connection where a write failed first: an upload ${isLengthKnown ? "with its length" : "in chunks"}, ${isReset ? "reset" : "closed"}, ${text === "" ? "no answer" : "an answer"}`, async () => {
          const source = tenOf(() => engine.end(text, isReset), isLengthKnown);
          const error = await rejectionOf(wholeAnswer(poolTo(engine.port), source.request, limits), ExchangeError);
          assert.equal(error.phase, "closed");
          assert.ok(source.read < 5, "the rest of the upload is not read");
        });

  it("bytes that lay in a kept-alive connection before a request are no answer to it: it is sent again", async () => {
    const pool = poolTo(engine.port);
    assert.equal(await statusOf(pool, "."), 200);
    engine.end("HTTP/1.1 408 Request Timeout\r\ncontent-length: 2\r\n\r\nno", true);
    // A body of this size is written at once, before the event loop can read.
    assert.equal(await statusOf(pool, `${"x".repeat(20_000)}.`), 200);
    pool.close();
  });
});
