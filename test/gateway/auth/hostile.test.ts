import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, beforeEach, describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { scriptedEngine, type ScriptedEngine } from "../../support/scripted-engine.ts";
import { codeOf, startGateway, type TestGateway } from "./gateway.ts";
import { fc, runs } from "../../support/fast-check.ts";

const chat = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }] });

/** Everything that comes back for these bytes until the connection is ended, or silent for so long. */
async function send(port: number, bytes: string | Buffer, silenceMs = 0): Promise<string> {
  return await new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port });
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
    socket.once("close", () => resolve(text));
    socket.once("error", (error) => (text === "" ? reject(error) : resolve(text)));
    socket.setTimeout(silenceMs, () => socket.destroy());
    socket.write(bytes);
  });
}

function statuses(answer: string): number[] {
  return [...answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
}

describe("hostile requests", () => {
  let engine: ScriptedEngine;
  let gateway: TestGateway;
  let token = "";
  before(async () => {
    engine = await scriptedEngine();
    gateway = await startGateway({ SVC_AUTH_ENABLED: "1" }, { primary: { port: engine.port } });
    token = await gateway.token("v1-only");
  });
  after(async () => {
    await gateway[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });
  beforeEach(() => void engine.seen.splice(0));

  const head = (...lines: readonly string[]): string =>
    ["POST /v1/chat/completions HTTP/1.1", "Host: localhost", `Authorization: Bearer ${token}`, ...lines, "", ""].join(
      "\r\n",
    );

  it("need a token each, also on one connection", async () => {
    const first = head("Content-Type: application/json", `Content-Length: ${chat.length}`) + chat;
    const second = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${chat.length}\r\nConnection: close\r\n\r\n${chat}`;
    assert.deepEqual(statuses(await send(gateway.port, first + second)), [200, 401]);
    assert.equal(engine.seen.length, 1);
  });

  it("are not unpacked below /api", async () => {
    const admin = { authorization: `Bearer ${await gateway.token("admin")}`, "content-type": "application/json" };
    const small = gzipSync('{"label":"a","scope":"all"}').toString("latin1");
    const sent = await gateway.ask("POST", "/api/auth/tokens", { ...admin, "content-encoding": "gzip" }, small);
    assert.equal(codeOf(sent), "dispatch.unsupported_media_type");
    assert.match(sent.body, /a compressed body is not taken here/);
  });

  it("take no long time to match: long values that nearly match are refused", { timeout: 180_000 }, async () => {
    // A pattern that tries again and again is never done with it.
    for (const piece of ["a", "-", ".", "0", ":", "[", "%", ",", " ", "\t", "svc_a.", "::", "a-", "bearer "]) {
      const value = `${piece.repeat(Math.floor(7000 / piece.length))},!`.trim();
      for (const headers of [
        { host: value },
        { authorization: `Bearer ${value}`, origin: `http://${value}`, "content-type": value },
        { "x-forwarded-email": value, "x-forwarded-for": value, "x-request-id": value },
      ]) {
        const { status } = await gateway.ask("POST", "/v1/chat/completions", { ...headers }, "{}");
        assert.ok(status >= 400 && status < 500, piece);
      }
    }
  });

  it("of any bytes get an envelope or no answer, and the gateway continues", async () => {
    const lines =
      "Host: localhost|Content-Length: 3|Transfer-Encoding: chunked|Expect: 100-continue|Upgrade: h2c|Connection: upgrade";
    const starts =
      "GET / HTTP/1.1|POST /v1/chat/completions HTTP/1.1|CONNECT x:1 HTTP/1.1|OPTIONS * HTTP/1.1|PRI * HTTP/2.0|" +
      "TRACE / HTTP/1.1|GET http://x/ HTTP/1.1";
    const line = fc.oneof(fc.string(), fc.constantFrom(...lines.split("|")));
    const start = fc.oneof(fc.string(), fc.constantFrom(...starts.split("|")));
    await fc.assert(
      fc.asyncProperty(start, fc.array(line, { maxLength: 5 }), fc.string(), async (first, rest, body) => {
        const answer = await send(gateway.port, [first, ...rest, "", body].join("\r\n"), 50);
        for (const status of statuses(answer)) assert.ok(status < 500 && status !== 200, answer.slice(0, 300));
      }),
      { numRuns: runs(20) },
    );
    assert.equal(codeOf(await gateway.ask("GET", "/api/slots")), "auth.required");
    assert.equal(engine.seen.length, 0);
  });
});
