import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pino } from "pino";
import { ApiError } from "../../../src/api/errors.ts";
import { AccessLine } from "../../../src/gateway/telemetry/access-line.ts";
import { AccessLog } from "../../../src/gateway/telemetry/access-log.ts";
import { RequestRecord, shortName, type EndedRequest } from "../../../src/gateway/telemetry/request-record.ts";
import { startGateway } from "../../support/gateway.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

const ended = (more: Partial<EndedRequest> = {}): EndedRequest => ({
  endedAt: 1_764_216_000_123,
  requestId: "1",
  path: "/v1/embeddings",
  slot: "primary",
  code: 200,
  seconds: 0.01,
  failure: undefined,
  record: new RequestRecord(),
  ...more,
});

/** How many of 400 such requests are logged. */
function lines(part: number | undefined, code: number, failure?: ApiError, level = "info"): number {
  let count = 0;
  const log = new AccessLog(pino({ level }), () => void (count += 1), part);
  for (let nth = 0; nth < 400; nth += 1) log.closed(ended({ code, failure }));
  return count;
}

describe("the access log", () => {
  it("has every request by default, and none where only warnings are logged", () => {
    assert.equal(lines(undefined, 200), 400);
    assert.equal(lines(undefined, 200, undefined, "warn"), 0);
  });

  it("has the configured part of the successful requests, and every other request", () => {
    assert.equal(lines(0, 200), 0);
    const some = lines(0.5, 200);
    assert.ok(some > 100 && some < 300, `${some} of 400`);
    assert.equal(lines(0, 503, new ApiError("slot.not_ready")), 400);
    assert.equal(lines(0, 499), 400);
    assert.equal(lines(0, 200, new ApiError("dispatch.upstream_failed")), 400, "a stream that was cut");
  });

  it("has the failure of the engine where its answer is cut, not a client that disconnected", async () => {
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "audio/wav" });
      response.write("RIFF", () => response.destroy());
    });
    const slot = { port: engine.port, status: { capabilities: ["speech" as const] } };
    await using gateway = await startGateway({ slots: { primary: slot } });
    const answer = await gateway.post("/v1/audio/speech", { model: "primary", input: "hi", voice: "alloy" });
    assert.equal(answer.status, 200);
    await assert.rejects(answer.text());
    await until("it is logged", () => gateway.log().includes("/v1/audio/speech primary"));
    assert.match(gateway.log(), /"msg":"\/v1\/audio\/speech primary 502 dispatch\.upstream_failed"/);
    const count = (code: number) => `berth_requests_total{route="/v1/audio/speech",slot="primary",code="${code}"}`;
    assert.deepEqual([await gateway.metric(count(502)), await gateway.metric(count(499))], [1, undefined]);
  });

  it("has lines of JSON whatever a client writes, in the form of the other lines", () => {
    const record = new RequestRecord();
    const times = { heldMs: 12.4, queuedMs: 3.6, firstTokenMs: 20 };
    const asked = 'a"\n\u2028';
    Object.assign(record, { requestedModel: asked, isStream: true, ...times });
    record.engine = { startedAt: 0, ms: 30.2, model: 'b"', tokensIn: 4, tokensOut: 0 };
    const failure = new ApiError("dispatch.upstream_failed");
    const text = new AccessLine(ended({ slot: "upstream \\", code: 502, seconds: 0.05, failure, record })).text();
    assert.match(text, /^\{"level":30,"time":1764216000123,"component":"gateway",.*\}\n$/s);
    const line = { level: 30, time: 1_764_216_000_123, component: "gateway", requestId: "1", slot: "upstream \\" };
    const request = { status: 502, ms: 50, asked, stream: true, heldMs: 12, queuedMs: 4, firstTokenMs: 20 };
    const engine = { resolved: 'b"', engineMs: 30, tokensIn: 4, tokensOut: 0, failure: "dispatch.upstream_failed" };
    const msg = "/v1/embeddings upstream \\ 502 dispatch.upstream_failed";
    assert.deepEqual(JSON.parse(text), { ...line, ...request, ...engine, msg });
    record.requestedModel = shortName("x".repeat(100_000));
    assert.ok(new AccessLine(ended({ record })).text().length < 600, "a name of any length is cut");
  });

  it("has lines of JSON whatever a request's id is, and whatever the clock and the engine count", () => {
    const odd = ['a"b\\', "\n\r\t\0\u007f", "\u2028\u2029", "\ud800", "a\udc00\ud83d", "é€😀", ""];
    const ids = [...odd, `"${"x".repeat(10_000)}\ud800`, odd.join("").repeat(3)];
    const times = [0, 999, 1000, 1001, 1000, 999_999, 1_764_216_000_009, 1_764_215_999_999, 10_000_000_000_001];
    const same = { level: 30, component: "gateway", slot: "primary", status: 200, ms: 10 };
    for (const [nth, requestId] of ids.entries()) {
      const endedAt = times[nth] ?? 7;
      const text = new AccessLine(ended({ requestId, endedAt })).text();
      assert.match(text, /^[^\n]*\n$/);
      const line = { ...same, time: endedAt, requestId, msg: "/v1/embeddings primary 200" };
      assert.deepEqual(JSON.parse(text), line);
    }
    const whole = Array.from({ length: 31 }, (_, power) => [2 ** power - 1, 2 ** power]).flat();
    const tens = Array.from({ length: 16 }, (_, power) => [10 ** power - 1, 10 ** power]).flat();
    for (const count of [...whole, ...tens, -1, 0.5, 1.5, 2 ** 31, 2 ** 32 + 5, 2 ** 53, Number.MAX_VALUE]) {
      const record = new RequestRecord();
      record.engine = { startedAt: 0, ms: 1, model: "m", tokensIn: count, tokensOut: count };
      const { tokensIn, tokensOut }: Record<string, unknown> = JSON.parse(new AccessLine(ended({ record })).text());
      assert.deepEqual([tokensIn, tokensOut], [count, count]);
    }
  });

  it("has the fields of its own request where requests of many kinds end in turn", () => {
    for (let nth = 0; nth < 2000; nth += 1) {
      const record = new RequestRecord();
      // Names with spaces, which could be taken for two.
      const slot = nth % 2 === 0 ? "a" : "a b";
      const asked = `b ${nth % 300}`;
      const isResolved = nth % 3 !== 0;
      record.requestedModel = asked;
      if (isResolved) record.engine = { startedAt: 0, ms: nth, model: "c d", tokensIn: nth, tokensOut: undefined };
      const line = new AccessLine(ended({ endedAt: nth, slot, record }));
      const { slot: ofSlot, asked: name, resolved }: Record<string, unknown> = JSON.parse(line.text());
      assert.deepEqual([ofSlot, name, resolved], [slot, asked, isResolved ? "c d" : undefined]);
      assert.ok(Buffer.byteLength(line.text()) <= line.mostBytes);
    }
  });
});
