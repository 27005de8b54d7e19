import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Socket } from "node:net";
import { ExchangeError, type Exchange, type ExchangeRequest, type ResponseHead } from "../../src/lib/exchange.ts";
import { EnginePool, EnginePools } from "../../src/engine-client/client.ts";
import { tcpServer } from "../support/tcp-server.ts";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const request = (body: string): ExchangeRequest => ({
  method: "POST",
  path: "/x",
  accept: "text/plain",
  contentType: "text/x",
  body: [Buffer.from(body)],
});
/** What goes over the wire for it, before the body. */
const post = (body: string, port: number): string =>
  `POST /x HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: text/x\r\ncontent-length: ${body.length}\r\naccept: text/plain\r\n\r\n`;
const none = { firstByteMs: 0, idleMs: 0 };

/** A DOUBLE of an engine, and a pool of connections to it. */
async function engine(onText: Parameters<typeof tcpServer>[0]) {
  const server = await tcpServer(onText);
  // Without the limit of a second, within which a busy machine may not have sent again; another test has a limit.
  const pool = new EnginePool({ host: "127.0.0.1", port: server.port }, { resendLimitMs: Infinity });
  return {
    server,
    pool,
    ask: (body?: string, timeouts?: typeof none) => ask(pool, body, timeouts),
    /** How many connections are open. */
    open: () => server.sockets.filter(({ readyState }) => readyState !== "closed").length,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
    },
  };
}

/** The number of requests in what a connection has sent. */
const requestsIn = (text = ""): number => text.split("POST").length - 1;

interface Asked {
  readonly exchange: Exchange;
  readonly log: string[];
  readonly head: () => ResponseHead | undefined;
  readonly text: () => string;
  readonly error: () => ExchangeError | undefined;
  /** Resolves at the end or the failure. */
  readonly over: Promise<"end" | ExchangeError>;
}

function ask(pool: EnginePool, body = "", timeouts = none): Asked {
  const log: string[] = [];
  const over = Promise.withResolvers<"end" | ExchangeError>();
  let head: ResponseHead | undefined;
  let text = "";
  let error: ExchangeError | undefined;
  const exchange = pool.send(
    request(body),
    { timeouts },
    {
      onHead(got) {
        log.push("head");
        head = got;
      },
      onData(chunk) {
        log.push("data");
        text += chunk.toString();
      },
      onEnd() {
        log.push("end");
        over.resolve("end");
      },
      onError(got) {
        assert.ok(got instanceof ExchangeError);
        log.push(`error ${got.phase}`);
        error = got;
        over.resolve(got);
      },
    },
  );
  return { exchange, log, head: () => head, text: () => text, error: () => error, over: over.promise };
}

/** Answers every whole request (they have no body here) on any connection. */
function answering(answer: string): (socket: Socket, text: string) => void {
  const answered = new WeakMap<Socket, number>();
  return (socket, text) => {
    const requests = text.split("\r\n\r\n").length - 1;
    for (let done = answered.get(socket) ?? 0; done < requests; done += 1) socket.write(answer);
    answered.set(socket, requests);
  };
}

describe("EnginePool", () => {
  it("sends the request, and reports head, bytes and end once", async () => {
    await using at = await engine((socket, text) => {
      if (text.endsWith("hello")) socket.write(ok);
    });
    const asked = at.ask("hello");
    assert.equal(await asked.over, "end");
    assert.deepEqual(asked.log, ["head", "data", "end"]);
    assert.deepEqual([asked.head()?.status, asked.text()], [200, "ok"]);
    assert.equal(at.server.received[0], `${post("hello", at.server.port)}hello`);
  });

  it("uses a connection again, one request at a time", async () => {
    await using at = await engine(answering(ok));
    for (let count = 0; count < 5; count += 1) assert.equal(await at.ask().over, "end");
    assert.equal(at.server.sockets.length, 1);
    await Promise.all([at.ask().over, at.ask().over, at.ask().over]);
    assert.equal(at.server.sockets.length, 3);
    at.pool.close();
    await until("all are closed", () => at.open() === 0);
  });

  for (const [what, answer] of [
    ["says close", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"],
    ["speaks HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
  ] as const) {
    it(`uses no connection again whose engine ${what}`, async () => {
      await using at = await engine(answering(answer));
      assert.equal(await at.ask().over, "end");
      assert.equal(await at.ask().over, "end");
      assert.equal(at.server.sockets.length, 2);
    });
  }

  it("takes no bytes behind an answer as the answer to the next request", async () => {
    const stray = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray";
    await using at = await engine((socket) => {
      socket.write(at.server.sockets.length === 1 ? `${ok}${stray}` : ok);
    });
    const next = Promise.withResolvers<Asked>();
    at.pool.send(
      request(""),
      { timeouts: none },
      {
        onHead: () => undefined,
        onData: () => undefined,
        onEnd: () => next.resolve(at.ask()),
        onError: next.reject,
      },
    );
    const asked = await next.promise;
    assert.equal(await asked.over, "end");
    assert.equal(asked.text(), "ok");
  });

  it("drops an idle connection that the engine closed, or on which it sends without a request", async () => {
    await using at = await engine(answering(ok));
    await at.ask().over;
    at.server.sockets[0]?.end();
    await until("our side is closed too", () => at.server.sockets[0]?.readyState === "closed");
    await at.ask().over;
    assert.equal(at.server.sockets.length, 2);
    at.server.sockets[1]?.write("HTTP/1.1 408 Request Timeout\r\n\r\n");
    await until("it is dropped", () => at.server.sockets[1]?.readyState === "closed");
    const third = at.ask();
    assert.equal(await third.over, "end");
    assert.deepEqual([third.head()?.status, at.server.sockets.length], [200, 3]);
  });

  it("takes no bytes from before a request as its answer, and sends the request over another connection", async () => {
    await using at = await engine(answering(ok));
    await at.ask().over;
    // From a timer, sockets are read once more before the turn ends, and so before the request is written.
    const asked = await new Promise<Asked>((resolve) => {
      setTimeout(() => {
        at.server.sockets[0]?.write("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray");
        resolve(at.ask());
      }, 0);
    });
    assert.equal(await asked.over, "end");
    assert.equal(asked.text(), "ok");
    assert.equal(await at.ask().over, "end");
    assert.deepEqual([at.server.sockets.length, at.server.received[0]], [2, post("", at.server.port)]);
  });

  it("uses no connection again on which a request is still being sent when its answer has come", async () => {
    await using at = await engine((socket, _text, nth) => {
      if (nth === 0) socket.pause();
      socket.write(ok);
    });
    assert.equal(await at.ask("x".repeat(16_000_000)).over, "end");
    assert.equal(await at.ask("", { firstByteMs: 60_000, idleMs: 0 }).over, "end");
    assert.equal(at.server.received[1], post("", at.server.port));
  });

  it("sends a request again where a kept connection ends before any byte of an answer, once", async () => {
    const answer = answering(ok);
    await using at = await engine((socket, text, nth) => {
      if (nth > 0) answer(socket, text);
      else if (requestsIn(text) === 1) socket.write(ok);
      else socket.destroy();
    });
    await at.ask().over;
    const again = at.ask();
    assert.equal(await again.over, "end");
    assert.deepEqual([again.log, at.server.sockets.length], [["head", "data", "end"], 2]);
  });

  it("does not send a request a third time, nor again over a fresh connection, nor after a byte of an answer", async () => {
    await using silent = await engine((socket, text, nth) => {
      if (requestsIn(text) === 1 && nth === 0) socket.write(ok);
      else socket.destroy();
    });
    await silent.ask().over;
    // The second time over a fresh connection.
    for (const connections of [2, 3]) {
      const asked = silent.ask();
      await asked.over;
      assert.deepEqual([asked.log, silent.server.sockets.length], [["error closed"], connections]);
    }
    await using hasty = await engine((socket, text) => {
      if (requestsIn(text) === 1) socket.write(ok);
      else socket.end("HTTP/1.1 200");
    });
    await hasty.ask().over;
    const begun = hasty.ask();
    await begun.over;
    assert.deepEqual([begun.log, hasty.server.sockets.length], [["error broken"], 1]);
  });

  it("does not send a request again on which an engine worked for some time before it ended", async () => {
    await using at = await engine((socket, text) => {
      if (requestsIn(text) === 1) socket.write(ok);
      // The engine works on it.
      else setTimeout(() => socket.destroy(), 200);
    });
    const pool = new EnginePool({ host: "127.0.0.1", port: at.server.port }, { resendLimitMs: 50 });
    await ask(pool).over;
    const second = ask(pool);
    await second.over;
    assert.equal(second.error()?.phase, "closed");
    assert.equal(at.server.sockets.length, 1);
  });

  it("distinguishes a refused connection, a closed connection, garbage, and half an answer", async () => {
    const refused = ask(new EnginePool({ host: "127.0.0.1", port: await freePort() }));
    await refused.over;
    assert.deepEqual(refused.log, ["error connect"]);
    for (const [bytes, log] of [
      ["", ["error closed"]],
      ["hello\r\n\r\n", ["error broken"]],
      ["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok", ["head", "data", "error broken"]],
      ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", ["head", "data", "error broken"]],
      ["HTTP/1.1 200 OK\r\n\r\nok", ["head", "data", "end"]],
    ] as const) {
      await using at = await engine((socket) => socket.end(bytes));
      const asked = at.ask();
      await asked.over;
      assert.deepEqual(asked.log, log, bytes);
    }
  });

  it("gives up an engine that sends nothing in time, and one that stops sending", async () => {
    await using at = await engine((socket, text) => {
      if (text.includes("begin")) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok");
    });
    const mute = at.ask("", { firstByteMs: 50, idleMs: 0 });
    await mute.over;
    assert.deepEqual(mute.log, ["error timeout"]);
    const silent = at.ask("begin", { firstByteMs: 0, idleMs: 50 });
    await silent.over;
    assert.deepEqual(silent.log, ["head", "data", "error timeout"]);
    await until("both are closed", () => at.open() === 0);
  });

  it("gives up an engine that drips announcements, a chunk's extension or trailers instead of an answer", async () => {
    const chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    const drips: Readonly<Record<string, readonly [begin: string, drip: string]>> = {
      announcements: ["", "HTTP/1.1 100 Continue\r\n\r\n"],
      extension: [`${chunked}1;`, "a"],
      trailers: [`${chunked}0\r\n`, "a: b\r\n"],
    };
    await using at = await engine((socket, text) => {
      const [begin, drip] = Object.entries(drips).find(([name]) => text.includes(name))?.[1] ?? ["", ""];
      socket.write(begin);
      const timer = setInterval(() => socket.write(drip), 10);
      socket.once("close", () => clearInterval(timer));
    });
    const asked = Object.keys(drips).map((name) => at.ask(name, { firstByteMs: 300, idleMs: 300 }));
    for (const { over } of asked) await over;
    assert.deepEqual(
      asked.map(({ log }) => log.at(-1)),
      ["error timeout", "error timeout", "error timeout"],
    );
  });

  it("waits for an engine that may take longer than a timer of Node can count: such a timer is due at once", async () => {
    await using at = await engine((socket) => void setTimeout(() => socket.write(ok), 100));
    const idleMs = 31_536_000_000;
    assert.equal(await at.ask("", { firstByteMs: idleMs, idleMs }).over, "end");
  });

  it("does not count its reader's pause as silence of the engine, and gives every byte after it", async () => {
    const large = "x".repeat(16_000_000);
    await using at = await engine((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${large.length}\r\n\r\n`);
      socket.write(large.slice(0, 1000));
    });
    const asked = at.ask("", { firstByteMs: 0, idleMs: 1500 });
    await until("it has begun", () => asked.log.includes("data"));
    asked.exchange.pause();
    const before = asked.text().length;
    at.server.sockets[0]?.write(large.slice(1000));
    const began = performance.now();
    await until("more than the time-out has gone by", () => performance.now() - began > 2000);
    assert.equal(asked.error(), undefined);
    assert.ok(asked.text().length - before <= 65_536, "at most what was read already came meanwhile");
    assert.ok((at.server.sockets[0]?.writableLength ?? 0) > 0, "the engine feels it");
    asked.exchange.resume();
    assert.equal(await asked.over, "end");
    assert.equal(asked.text().length, large.length);
  });

  it("can use a connection again whose reader paused at the very end", async () => {
    await using at = await engine(answering(ok));
    const over = Promise.withResolvers<void>();
    const exchange = at.pool.send(
      request(""),
      { timeouts: none },
      {
        onHead: () => exchange.pause(),
        onData: () => undefined,
        onEnd: () => over.resolve(),
        onError: (error) => over.reject(error),
      },
    );
    await over.promise;
    assert.equal(await at.ask().over, "end");
    assert.equal(at.server.sockets.length, 1);
  });

  it("ends at once when aborted at any moment, and sends no further event", async () => {
    await using at = await engine((socket, text) => {
      if (text.includes("begin")) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok");
      if (text.includes("finish")) socket.write(ok);
    });
    const atOnce = at.ask();
    atOnce.exchange.abort();
    const waiting = at.ask("wait");
    await until("it is sent", () => at.server.received.some((text) => text.includes("wait")));
    waiting.exchange.abort();
    const begun = at.ask("begin");
    await until("it has begun", () => begun.log.length === 2);
    begun.exchange.abort();
    const finished = at.ask("finish");
    await finished.over;
    assert.deepEqual([atOnce.log, waiting.log, begun.log], [[], [], ["head", "data"]]);
    await until("only the one that may be used again is open", () => at.open() === 1);
    at.pool.close();
    await until("none is", () => at.open() === 0);
  });

  it("does not end another request when a finished one is aborted", async () => {
    await using at = await engine((socket, text) => {
      if (requestsIn(text) === 1) socket.write(ok);
    });
    const first = at.ask();
    await first.over;
    const second = at.ask();
    await until("it is sent", () => requestsIn(at.server.received[0]) === 2);
    first.exchange.abort();
    first.exchange.pause();
    at.server.sockets[0]?.write(ok);
    assert.equal(await second.over, "end");
  });

  it("keeps no connection for another process that has the port later", async () => {
    await using at = await engine((socket, text) => {
      if (text.endsWith("\r\n\r\n")) socket.write(ok);
    });
    const pools = new EnginePools();
    const old = pools.open({ host: "127.0.0.1", port: at.server.port });
    await ask(old).over;
    await ask(old).over;
    assert.equal(at.server.sockets.length, 1);
    const underWay = ask(old, "slow");
    await until("it is sent", () => at.server.received[0]?.endsWith("slow") === true);
    old.close();
    const next = pools.open({ host: "127.0.0.1", port: at.server.port });
    await ask(next).over;
    assert.equal(at.server.sockets.length, 2);
    at.server.sockets[0]?.write(ok);
    assert.equal(await underWay.over, "end");
    await until("its connection is closed", () => at.server.sockets[0]?.readyState !== "open");
    await ask(next).over;
    assert.equal(at.server.sockets.length, 2);
    pools.close();
    await until("all are closed", () => at.open() === 0);
  });
});
