import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ExchangeError, type ExchangeRequest } from "../../src/lib/exchange.ts";
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
  /** Parts that have been read, of all attempts. */
  read: number;
  /** Readers that have not ended. */
  open: number;
}

/** A stored body of these parts. `beforeSecond` runs when the kernel has the head and the first part. */
function storedOf(
  parts: readonly (string | Error)[],
  beforeSecond: () => void | Promise<void> = () => undefined,
): Source {
  async function* read(): AsyncGenerator<Buffer> {
    source.open += 1;
    try {
      for (const [index, part] of parts.entries()) {
        if (index === 1) await beforeSecond();
        source.read += 1;
        if (part instanceof Error) throw part;
        yield Buffer.from(part);
      }
    } finally {
      source.open -= 1;
    }
  }
  const sizeBytes = parts.reduce((sum, part) => sum + (part instanceof Error ? 1 : part.length), 0);
  const source = { read: 0, open: 0, request: { ...post({ sizeBytes, read }), contentType: "text/x" } };
  return source;
}

/** The status of the answer over a kept-alive connection, where the pool has one. */
async function statusOf(pool: EnginePool, body: string | Source): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let status = 0;
  pool.send(
    typeof body === "string" ? post([Buffer.from(body)]) : body.request,
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

describe("a stored body over our own transport", () => {
  it("is sent with its length, over a kept-alive connection too", async () => {
    await using server = await tcpServer((socket, text) => {
      if (text.endsWith("abcde")) socket.write(ok);
    });
    const pool = poolTo(server.port);
    const source = storedOf(["abc", "", "de"]);
    for (let nth = 0; nth < 2; nth += 1) assert.equal(await statusOf(pool, source), 200);
    const head = `host: 127.0.0.1:${server.port}\r\ncontent-type: text/x\r\ncontent-length: 5\r\naccept: */*\r\n\r\n`;
    assert.deepEqual(server.received, [`POST /u HTTP/1.1\r\n${head}abcde`.repeat(2)]);
    pool.close();
  });

  it("is sent again, from its start, where a kept-alive connection ends before any byte of an answer", async () => {
    await using server = await tcpServer((socket, text, nth) => {
      const bodies = text.split("abc").length - 1;
      if (bodies === 2) socket.destroy();
      else if (bodies === nth + 1 || nth === 1) socket.write(ok);
    });
    const pool = poolTo(server.port);
    const source = storedOf(["a", "bc"]);
    for (let nth = 0; nth < 2; nth += 1) assert.equal(await statusOf(pool, source), 200);
    assert.deepEqual([server.sockets.length, source.read, source.open], [2, 6, 0]);
    pool.close();
  });

  it("is released where the engine refuses the connection", async () => {
    const source = storedOf(["abc", "def"]);
    const error = await rejectionOf(wholeAnswer(poolTo(await freePort()), source.request, limits), ExchangeError);
    assert.equal(error.phase, "connect");
    await until("its reader has ended", () => source.open === 0);
  });

  it("ends with its own error where it cannot be read, and the engine sees no whole body", async () => {
    await using server = await tcpServer(() => undefined);
    const broken = new Error("the disk is broken");
    const error = await rejectionOf(wholeAnswer(poolTo(server.port), storedOf(["abc", broken]).request, limits), Error);
    assert.equal(error, broken);
    await until("the connection is closed", () => server.sockets[0]?.readyState !== "open");
    assert.match(server.received[0] ?? "", /content-length: 4\r\n[^]*\r\n\r\nabc$/);
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

const tenOf = (beforeSecond: () => void | Promise<void>): Source => storedOf(Array<string>(10).fill("x"), beforeSecond);

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
    await until("the reading has ended", () => source.open === 0);
    assert.ok(source.read < 5, "the rest of the body is not read");
  });

  for (const isReset of [true, false])
    for (const text of [refusal, ""])
      it(`is reported as one that closed the connection where a write failed first: ${isReset ? "reset" : "closed"}, ${text === "" ? "no answer" : "an answer"}`, async () => {
        const source = tenOf(() => engine.end(text, isReset));
        const error = await rejectionOf(wholeAnswer(poolTo(engine.port), source.request, limits), ExchangeError);
        assert.equal(error.phase, "closed");
        assert.ok(source.read < 5, "the rest of the body is not read");
      });

  it("bytes that lay in a kept-alive connection before a request are no answer to it: it is sent again", async () => {
    const pool = new EnginePool({ host: "127.0.0.1", port: engine.port }, { resendLimitMs: 60_000 });
    assert.equal(await statusOf(pool, "."), 200);
    engine.end("HTTP/1.1 408 Request Timeout\r\ncontent-length: 2\r\n\r\nno", true);
    // A body of this size is written at once, before the event loop can read.
    assert.equal(await statusOf(pool, `${"x".repeat(20_000)}.`), 200);
    pool.close();
  });
});
