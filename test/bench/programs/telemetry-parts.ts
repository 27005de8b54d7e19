/** CPU of each part of the telemetry of a request, alone in a loop: the least of many rounds, in microseconds. */
import { createServer } from "node:http";
import { openSync } from "node:fs";
import { pino } from "pino";
import { AccessLog } from "../../../src/gateway/telemetry/access-log.ts";
import { RecentRequests } from "../../../src/gateway/telemetry/recent-requests.ts";
import { RequestRecord, type EndedRequest } from "../../../src/gateway/telemetry/request-record.ts";
import { Traces } from "../../../src/gateway/telemetry/traces.ts";
import { LogOutput } from "../../../src/program/log-output.ts";
import { listen } from "../../support/listen.ts";

/** As many requests as end in one turn of a busy gateway's loop. */
const perTurn = 8;
const perRound = 8000;
const rounds = 25;

const receiver = createServer((request, response) => void request.resume().on("end", () => response.end("{}")));
const endpoint = `http://127.0.0.1:${await listen(receiver)}`;
const output = new LogOutput({ fd: openSync("/dev/null", "w"), limitBytes: 2 ** 22, onLost: () => undefined });
const log = new AccessLog(pino({ level: "info" }), (line) => output.writeLate(line));
const traces = (part: number): Traces =>
  new Traces({ endpoint, version: "1", instance: "1", part, onFailing: console.error });
const [all, tenth] = [traces(1), traces(0.1)];
const shown = new RecentRequests({ keepsBodies: true });
const unshown = new RecentRequests({ keepsBodies: false });
const body = Buffer.from(
  JSON.stringify({
    model: "bench",
    messages: [
      { role: "system", content: "You are a helpful assistant." },
      { role: "user", content: "How long is a minute?" },
    ],
  }),
);

function ended(nth: number): EndedRequest {
  const record = new RequestRecord();
  record.requestedModel = "bench";
  record.engine = { startedAt: performance.now() - 3, ms: 3, model: "fixed", tokensIn: 24, tokensOut: 12 };
  return {
    endedAt: Date.now(),
    requestId: `0af7651916cd43dd8448eb21${nth}`,
    path: "/v1/chat/completions",
    slot: "bench",
    code: 200,
    seconds: 0.004,
    failure: undefined,
    record,
  };
}

const parts: Record<string, (nth: number) => void> = {
  nothing: (nth) => void ended(nth),
  "access log": (nth) => log.closed(ended(nth)),
  "requests, without bodies": (nth) => unshown.add(ended(nth)),
  "requests, with bodies": (nth) => {
    const request = ended(nth);
    request.record.body = shown.keepBody(body);
    shown.add(request);
  },
  "traces of a tenth": (nth) => trace(tenth, nth),
  "traces of all": (nth) => trace(all, nth),
};

function trace(by: Traces, nth: number): void {
  const { spans } = by.begin({});
  const request = ended(nth);
  if (spans !== undefined) by.ended(request, spans);
}

async function round(part: (nth: number) => void): Promise<number> {
  const before = process.cpuUsage();
  for (let nth = 0; nth < perRound; nth += 1) {
    part(nth);
    if (nth % perTurn === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / perRound;
}

const least: Record<string, number> = {};
for (let nth = 0; nth < rounds; nth += 1)
  for (const [name, part] of Object.entries(parts)) least[name] = Math.min(least[name] ?? Infinity, await round(part));
const base = least["nothing"] ?? 0;
console.log(
  Object.entries(least)
    .filter(([name]) => name !== "nothing")
    .map(([name, micros]) => `${name}: ${(micros - base).toFixed(2)}`)
    .join(", "),
);
await Promise.all([all[Symbol.asyncDispose](), tenth[Symbol.asyncDispose]()]);
process.exit(0);
