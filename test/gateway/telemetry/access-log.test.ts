import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pino } from "pino";
import { z } from "zod";
import { ApiError } from "../../../src/api/errors.ts";
import { AccessLine } from "../../../src/gateway/telemetry/access-line.ts";
import { AccessLog } from "../../../src/gateway/telemetry/access-log.ts";
import { RequestRecord, shortName } from "../../../src/gateway/telemetry/request-record.ts";
import { startGateway } from "../../support/gateway.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

function lines(part: number | undefined, code: number, failure?: ApiError): number {
  let count = 0;
  const log = new AccessLog(pino({ level: "info" }), () => void (count += 1), part);
  const request = { requestId: "1", path: "/v1/chat/completions", slot: "primary", seconds: 1, failure };
  for (let nth = 0; nth < 400; nth += 1) log.closed({ ...request, endedAt: nth, code, record: new RequestRecord() });
  return count;
}

describe("the access log", () => {
  it("has every request by default", () => {
    assert.equal(lines(undefined, 200), 400);
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
    assert.equal(await gateway.metric('berth_requests_total{route="/v1/audio/speech",slot="primary",code="502"}'), 1);
    assert.equal(
      await gateway.metric('berth_requests_total{route="/v1/audio/speech",slot="primary",code="499"}'),
      undefined,
    );
  });

  it("cuts a name of any length", () => {
    let text = "";
    const record = new RequestRecord();
    record.requestedModel = shortName("x".repeat(100_000));
    new AccessLog(pino({ level: "info" }), (line) => void (text += line.text())).closed({
      endedAt: Date.now(),
      requestId: "1",
      path: "/v1/chat/completions",
      slot: "none",
      code: 404,
      seconds: 0,
      failure: undefined,
      record,
    });
    assert.ok(text.length < 600, `${text.length} characters`);
  });

  it("has lines of JSON whatever a client writes, in the form of the other lines", () => {
    const record = new RequestRecord();
    Object.assign(record, {
      requestedModel: 'a"\n\u2028',
      isStream: true,
      heldMs: 12.4,
      queuedMs: 3.6,
      firstTokenMs: 20,
    });
    record.engine = { startedAt: 0, ms: 30.2, model: 'b"', tokensIn: 4, tokensOut: 0 };
    const failure = new ApiError("dispatch.upstream_failed");
    const seen: string[] = [];
    const path = "/v1/chat/completions";
    new AccessLog(pino({ level: "info" }), (line) => void seen.push(line.text())).closed({
      endedAt: Date.now(),
      requestId: "r-1",
      path,
      slot: "upstream \\",
      code: 502,
      seconds: 0.05,
      failure,
      record,
    });
    const [line = ""] = seen;
    assert.match(line, /^\{"level":30,"time":\d{13},"component":"gateway",.*\}\n$/s);
    const { time, ...rest }: Record<string, unknown> = z.record(z.string(), z.unknown()).parse(JSON.parse(line));
    assert.ok(Math.abs(Number(time) - Date.now()) < 60_000);
    assert.deepEqual(rest, {
      level: 30,
      component: "gateway",
      requestId: "r-1",
      slot: "upstream \\",
      status: 502,
      ms: 50,
      asked: 'a"\n\u2028',
      stream: true,
      heldMs: 12,
      queuedMs: 4,
      firstTokenMs: 20,
      resolved: 'b"',
      engineMs: 30,
      tokensIn: 4,
      tokensOut: 0,
      failure: "dispatch.upstream_failed",
      msg: "/v1/chat/completions upstream \\ 502 dispatch.upstream_failed",
    });
  });

  it("has lines of JSON whatever a request's id is", () => {
    const ids = [
      'a"b\\',
      "\n\r\t\0\u007f",
      "\u2028\u2029",
      "\ud800",
      "a\udc00\ud83d",
      "é€😀",
      `"${"x".repeat(10_000)}\ud800`,
      "",
    ];
    for (const requestId of [...ids, ids.join("").repeat(3)]) {
      const ended = {
        requestId,
        path: "/v1/embeddings",
        slot: "primary",
        code: 200,
        seconds: 0.01,
        failure: undefined,
      };
      const text = new AccessLine({ ...ended, endedAt: 1_764_216_000_123, record: new RequestRecord() }).text();
      assert.match(text, /^[^\n]*\n$/);
      assert.deepEqual(JSON.parse(text), {
        level: 30,
        time: 1_764_216_000_123,
        component: "gateway",
        requestId,
        slot: "primary",
        status: 200,
        ms: 10,
        msg: "/v1/embeddings primary 200",
      });
    }
  });

  it("has the time of each line at any setting of the clock", () => {
    const ended = {
      requestId: "1",
      path: "/v1/embeddings",
      slot: "primary",
      code: 200,
      seconds: 0,
      failure: undefined,
    };
    const seconds = [0, 999, 1000, 1001, 1000, 999_999, 1_764_216_000_000, 1_764_216_000_009, 1_764_216_000_120, 7];
    for (const time of [...seconds, 1_764_216_000_999, 1_764_216_001_000, 1_764_215_999_999, 10_000_000_000_001]) {
      const text = new AccessLine({ ...ended, endedAt: time, record: new RequestRecord() }).text();
      assert.ok(text.startsWith(`{"level":30,"time":${time},"component":`), text);
    }
  });

  it("has the fields of its own request where requests of many kinds end in turn", () => {
    const fields = z.object({ slot: z.string(), asked: z.string().optional(), resolved: z.string().optional() });
    for (let nth = 0; nth < 2000; nth += 1) {
      const record = new RequestRecord();
      // Names with spaces, which could be taken for two.
      const [slot, asked, resolved] = [
        ["a", "a b"][nth % 2] ?? "",
        `b ${nth % 300}`,
        nth % 3 === 0 ? undefined : "c d",
      ];
      record.requestedModel = asked;
      if (resolved !== undefined)
        record.engine = { startedAt: 0, ms: nth, model: resolved, tokensIn: nth, tokensOut: undefined };
      const ended = { requestId: String(nth), path: "/v1/embeddings", code: 200, seconds: nth, failure: undefined };
      const line = new AccessLine({ ...ended, endedAt: nth, slot, record });
      assert.deepEqual(fields.parse(JSON.parse(line.text())), {
        slot,
        asked,
        ...(resolved !== undefined && { resolved }),
      });
      assert.ok(Buffer.byteLength(line.text()) <= line.mostBytes);
    }
  });

  it("is empty where only warnings are logged", () => {
    const seen: string[] = [];
    const log = new AccessLog(pino({ level: "warn" }), (line) => void seen.push(line.text()));
    const ended = {
      requestId: "1",
      path: "/v1/embeddings",
      slot: "primary",
      code: 200,
      seconds: 0,
      failure: undefined,
    };
    log.closed({ ...ended, endedAt: Date.now(), record: new RequestRecord() });
    assert.deepEqual(seen, []);
  });
});
