/**
 * Loaded into a process by `NODE_OPTIONS=--import`: writes what that process asks of an API server, what its watches
 * told of Slots, and what kept its event loop, to the file BERTH_TEST_CALLS, a line of JSON each, with the time of day.
 */
import { subscribe } from "node:diagnostics_channel";
import { closeSync, openSync, writeSync } from "node:fs";
import { ClientRequest, IncomingMessage } from "node:http";
import { PerformanceObserver, performance } from "node:perf_hooks";
import { isRecord } from "../../../src/lib/record.ts";

const file = process.env["BERTH_TEST_CALLS"];
/** A turn of the event loop that is shorter keeps nobody. */
const stallMs = 15;
const tickMs = 5;

function now(): number {
  return performance.timeOrigin + performance.now();
}

/** The objects that a piece of a watch tells of: good enough for names without quotes. */
const added = /\{"type":"ADDED","object":\{[^\n]*?"metadata":\{[^\n]*?"name":"([^"]+)"/g;

function follow(response: IncomingMessage, tell: (chunk: string) => void): void {
  const push = response.push.bind(response);
  response.push = (chunk: unknown, encoding?: BufferEncoding) => {
    if (Buffer.isBuffer(chunk)) tell(chunk.toString());
    return push(chunk, encoding);
  };
}

function start(path: string): void {
  const out = openSync(path, "a");
  const write = (line: object): void => void writeSync(out, `${JSON.stringify(line)}\n`);
  process.once("exit", () => closeSync(out));
  const began = new WeakMap<ClientRequest, number>();
  subscribe("http.client.request.start", (message) => {
    if (isRecord(message) && message["request"] instanceof ClientRequest) began.set(message["request"], now());
  });
  subscribe("http.client.response.finish", (message) => {
    if (!isRecord(message)) return;
    const { request, response } = message;
    if (!(request instanceof ClientRequest) || !(response instanceof IncomingMessage)) return;
    const { method, path: asked } = request;
    const beganAt = began.get(request) ?? now();
    if (asked.includes("watch=true")) {
      if (!asked.includes("/slots?")) return;
      follow(response, (chunk) => {
        for (const [, name] of chunk.matchAll(added)) write({ what: "seen", at: now(), name });
      });
      return;
    }
    const isNew = !request.reusedSocket;
    write({ what: "call", at: beganAt, ms: now() - beganAt, method, path: asked, status: response.statusCode, isNew });
  });
  let last = performance.now();
  setInterval(() => {
    const ms = performance.now() - last - tickMs;
    last = performance.now();
    if (ms > stallMs) write({ what: "stall", at: now() - ms, ms });
  }, tickMs).unref();
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries())
      if (duration > stallMs / 3) write({ what: "garbage", at: performance.timeOrigin + startTime, ms: duration });
  }).observe({ entryTypes: ["gc"] });
}

if (file !== undefined) start(file);
