import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pino } from "pino";
import { ApiError } from "../../../src/api/errors.ts";
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
  const log = logTo(() => void (count += 1), { level, ...(part === undefined ? {} : { part }) });
  for (let nth = 0; nth < 400; nth += 1) log.closed(ended({ code, failure }));
  return count;
}

function logTo(write: (line: string) => void, options: { level?: string; part?: number } = {}): AccessLog {
  const { level = "info", ...rest } = options;
  const lines = pino({ level, base: { component: "gateway" } }, { write });
  return new AccessLog({ log: pino({ level: "silent" }), lines, ...rest });
}

/** The line of a request, with its end. */
function lineOf(request: EndedRequest): string {
  const written: string[] = [];
  logTo((line) => written.push(line)).closed(request);
  return written.join("");
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

  it("has a refused request for which there is no route, without its path", async () => {
    await using gateway = await startGateway();
    const requests = [
      ["GET", "/v1/no-such-path?key=no-such-key", "/v1/* none 404 system.not_found"],
      ["POST", "/v1/chat/no-such-path", "/v1/* none 404 system.not_found"],
      ["GET", "/v1/no-such-path/%zz", "/v1/* none 400 dispatch.invalid_request"],
      ["DELETE", "/v1/chat/completions/", "/v1/chat/completions none 405 system.method_not_allowed"],
      ["GET", "/rerank", "/v1/rerank none 405 system.method_not_allowed"],
      ["POST", "//v1/no-such-path", "/v1/* none 404 system.not_found"],
    ] as const;
    for (const [method, path, msg] of requests) {
      const answer = await fetch(`${gateway.url}${path}`, { method });
      await answer.text();
      const id = answer.headers.get("x-request-id") ?? "none";
      await until("it is logged", () => gateway.log().includes(id));
      const line =
        gateway
          .log()
          .split("\n")
          .find((each) => each.includes(id)) ?? "";
      assert.ok(line.includes(`"msg":${JSON.stringify(msg)}`), line);
    }
    assert.doesNotMatch(gateway.log(), /no-such/);
    const count = (code: number) => `berth_requests_total{route="/v1/*",slot="none",code="${code}"}`;
    assert.deepEqual([await gateway.metric(count(404)), await gateway.metric(count(400))], [3, 1]);
    const failures = 'berth_request_failures_total{slot="none",error="system.not_found",answer="none",reason="other"}';
    assert.equal(await gateway.metric(failures), 3);
  });

  it("has no line of a request outside of `/v1`, nor of one that a route of management answers", async () => {
    await using gateway = await startGateway();
    for (const path of ["/v1/models", "/v1/models/nope", "/api/nope", "/nope"])
      await (await fetch(new URL(path, gateway.url))).text();
    await (await fetch(new URL("/v1/nope", gateway.url))).text();
    await until("the last of them is logged", () => gateway.log().includes("/v1/*"));
    const lines = gateway
      .log()
      .split("\n")
      .filter((line) => line.includes('"component":"gateway"'));
    assert.equal(lines.length, 1, lines.join("\n"));
  });

  it("has lines of JSON whatever a client writes, in the form of the other lines", () => {
    const record = new RequestRecord();
    const times = { heldMs: 12.4, queuedMs: 3.6, firstTokenMs: 20 };
    const asked = 'a"\n\u2028';
    Object.assign(record, { requestedModel: asked, isStream: true, ...times });
    record.engine = { startedAt: 0, ms: 30.2, model: 'b"', tokensIn: 4, tokensOut: 0 };
    const failure = new ApiError("dispatch.upstream_failed");
    const text = lineOf(ended({ slot: "upstream \\", code: 502, seconds: 0.05, failure, record }));
    assert.match(text, /^\{"level":30,"time":\d+,"component":"gateway","requestId":"1",.*\}\n$/s);
    const { time: _time, ...line }: Record<string, unknown> = JSON.parse(text);
    const request = { status: 502, ms: 50, asked, stream: true, heldMs: 12, queuedMs: 4, firstTokenMs: 20 };
    const engine = { resolved: 'b"', engineMs: 30, tokensIn: 4, tokensOut: 0, failure: "dispatch.upstream_failed" };
    const msg = "/v1/embeddings upstream \\ 502 dispatch.upstream_failed";
    const same = { level: 30, component: "gateway", requestId: "1", slot: "upstream \\" };
    assert.deepEqual(line, { ...same, ...request, ...engine, msg });
    record.requestedModel = shortName("x".repeat(100_000));
    assert.ok(lineOf(ended({ record })).length < 600, "a name of any length is cut");
  });

  it("leaves out what a request has not", () => {
    const line: object = JSON.parse(lineOf(ended()));
    const names = ["level", "time", "component", "requestId", "slot", "status", "ms", "msg"];
    assert.deepEqual(Object.keys(line), names);
  });
});
