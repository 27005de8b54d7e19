import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ExchangeError, type ExchangeRequest } from "../../src/lib/exchange.ts";
import { EnginePool } from "../../src/lib/http1/client.ts";
import { wholeAnswer } from "../../src/lib/whole-answer.ts";
import { closingEngine, type ClosingEngine } from "../support/closing-engine.ts";
import { rejectionOf } from "../support/rejection.ts";

const limits = { timeoutMs: 10_000, limitBytes: 1000 };
const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const refusal = "HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno";
const withoutLength = "HTTP/1.1 413 Too Large\r\n\r\nno";

const poolTo = ({ port }: { readonly port: number }): EnginePool => new EnginePool({ host: "127.0.0.1", port });
const post = (body: ExchangeRequest["body"]): ExchangeRequest => ({ method: "POST", path: "/u", accept: "*/*", body });

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

/** Ten chunks. `beforeFirst` runs when the engine may have the head alone. */
function upload(beforeFirst: () => void, isLengthKnown = true) {
  const source = {
    read: 0,
    request: post(() => ({
      headers: { "content-type": "text/x", ...(isLengthKnown ? { "content-length": 10 } : {}) },
      body: chunks(),
    })),
  };
  async function* chunks(): AsyncGenerator<Buffer> {
    beforeFirst();
    for (; source.read < 10; source.read += 1) yield Buffer.from("x");
  }
  return source;
}

/** Of a request that cannot be written to its end: its answer is read all the same. */
describe("an engine that answers before it has the whole request, and closes", () => {
  let engine: ClosingEngine;
  before(async () => void (engine = await closingEngine({ answer: ok })));
  after(() => engine[Symbol.asyncDispose]());

  for (const isLengthKnown of [true, false])
    for (const isReset of [true, false])
      it(`has its answer read: an upload ${isLengthKnown ? "with its length" : "in chunks"}, ${isReset ? "reset" : "closed"}`, async () => {
        const source = upload(() => engine.end(refusal, isReset), isLengthKnown);
        const { status, body } = await wholeAnswer(poolTo(engine), source.request, limits);
        assert.deepEqual([status, body.toString()], [413, "no"]);
        assert.ok(source.read < 3, "the rest of the upload is not read");
      });

  it("has its answer read: a large body, over a new connection and a kept-alive one", async () => {
    await using refusing = await closingEngine({ answer: ok, refusal });
    const pool = poolTo(refusing);
    const large = "x".repeat(8_000_000);
    for (let round = 0; round < 2; round += 1) {
      assert.equal(await statusOf(pool, large), 413);
      assert.equal(await statusOf(pool, "."), 200);
      assert.equal(await statusOf(pool, large), 413);
    }
  });

  it("has its answer without a length read, where the connection was closed and not reset", async () => {
    const pool = poolTo(engine);
    const closed = upload(() => engine.end(withoutLength));
    assert.equal((await wholeAnswer(pool, closed.request, limits)).body.toString(), "no");
    const reset = upload(() => engine.end(withoutLength, true));
    const error = await rejectionOf(wholeAnswer(pool, reset.request, limits), ExchangeError);
    assert.equal(error.phase, "broken");
  });

  it("is reported as one that closed the connection, where no answer came", async () => {
    for (const isReset of [true, false]) {
      const { request } = upload(() => engine.end("", isReset));
      const error = await rejectionOf(wholeAnswer(poolTo(engine), request, limits), ExchangeError);
      assert.equal(error.phase, "closed");
    }
  });

  it("bytes that lay in a kept-alive connection before a request are no answer to it: it is sent again", async () => {
    const pool = poolTo(engine);
    assert.equal(await statusOf(pool, "."), 200);
    engine.end("HTTP/1.1 408 Request Timeout\r\ncontent-length: 2\r\n\r\nno", true);
    // A body of this size is written at once, before the event loop can read.
    assert.equal(await statusOf(pool, `${"x".repeat(20_000)}.`), 200);
    pool.close();
  });
});
