import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ExchangeError, type ExchangeRequest, type Upload } from "../../src/lib/exchange.ts";
import { EnginePool } from "../../src/lib/http1/client.ts";
import { AnswerTooLarge, wholeAnswer } from "../../src/lib/whole-answer.ts";
import { freePort } from "../support/free-port.ts";
import { rejectionOf } from "../support/rejection.ts";
import { tcpServer } from "../support/tcp-server.ts";
import { until } from "../support/until.ts";

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const limits = { timeoutMs: 10_000, limitBytes: 1000 };

interface Source {
  readonly request: ExchangeRequest;
  opened: number;
  read: number;
}

/** An upload of these parts; `length`: it says how long it is. */
function uploadOf(parts: readonly (string | Error)[], length?: number): Source {
  const source: Source = {
    opened: 0,
    read: 0,
    request: {
      method: "POST",
      path: "/u",
      accept: "*/*",
      body(): Upload {
        source.opened += 1;
        const headers = { "content-type": "text/x", ...(length === undefined ? {} : { "content-length": length }) };
        return { headers, body: chunks() };
      },
    },
  };
  async function* chunks(): AsyncGenerator<Buffer> {
    for (const part of parts) {
      source.read += 1;
      if (part instanceof Error) throw part;
      yield Buffer.from(part);
    }
  }
  return source;
}

const poolTo = (port: number): EnginePool => new EnginePool({ host: "127.0.0.1", port });

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
