/**
 * A DOUBLE, not an engine: answers fixed bytes as fast as Node can, so that a benchmark measures what stands before
 * it. Every event of a stream carries the time at which it was written. Flags, all optional:
 *
 *   --port N (PORT) --model NAME (MODEL)   --load-ms N  health is 503 until then
 *   --stamp FILE   appends "started|healthy|left|term <µs>" lines; left: a caller is gone before its answer
 *
 * A request's `bench` object asks for `events`, `everyMs` and `padBytes`, or to wait `waitMs`. GET /bench/calls counts what
 * was asked.
 */
import { appendFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import { parseArgs } from "node:util";
import { answerBody, eventBytes, monotonicUs, streamTail } from "./wire.ts";

const { values: flags } = parseArgs({
  options: {
    port: { type: "string" },
    model: { type: "string" },
    "load-ms": { type: "string" },
    stamp: { type: "string" },
  },
});
const model = flags.model ?? (process.env["MODEL"] || "fixed");
const whole = answerBody(model);
const calls = { begun: 0, chats: 0, streams: 0, uploads: 0, uploadedBytes: 0 };
let isLoaded = false;

function stamp(what: string): void {
  if (flags.stamp !== undefined) appendFileSync(flags.stamp, `${what} ${monotonicUs()}\n`);
}

interface Stream {
  readonly response: ServerResponse;
  readonly socket: Socket;
  readonly events: number;
  readonly everyMs: number;
  readonly padBytes: number;
  next: number;
  dueMs: number;
}

const streams = new Set<Stream>();
let ticking: NodeJS.Timeout | undefined;

/** One timer for all: a thousand of their own would be what is measured. */
function tick(): void {
  const now = performance.now();
  for (const stream of streams) {
    if (stream.dueMs > now) continue;
    // A real engine waits for its reader too.
    if (stream.socket.writableNeedDrain) continue;
    stream.dueMs += stream.everyMs;
    const bytes = eventBytes(model, stream.next, monotonicUs(), stream.padBytes);
    stream.next += 1;
    stream.socket.write(`${bytes.length.toString(16)}\r\n${bytes}\r\n`, "latin1");
    if (stream.next < stream.events) continue;
    streams.delete(stream);
    stream.response.end(streamTail);
  }
  if (streams.size > 0) return;
  clearInterval(ticking);
  ticking = undefined;
}

function onStream(response: ServerResponse, asked: { events: number; everyMs: number; padBytes: number }): void {
  calls.streams += 1;
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  // The head is out; what follows goes to the socket in chunks made here, until `end` writes the last one.
  response.flushHeaders();
  const { socket } = response;
  if (socket === null) return;
  const stream = { response, socket, ...asked, next: 0, dueMs: performance.now() };
  streams.add(stream);
  response.once("close", () => streams.delete(stream));
  ticking ??= setInterval(tick, 1);
}

function json(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

function onPost(path: string, body: string, response: ServerResponse): void {
  if (!isLoaded) return json(response, 503, '{"error":{"message":"loading"}}');
  if (path === "/v1/embeddings") {
    return json(response, 200, `{"object":"list","data":[],"model":"${model}","usage":{"total_tokens":1}}`);
  }
  const number = (name: string, otherwise: number): number =>
    Number(new RegExp(`"${name}":(\\d+)`).exec(body)?.[1] ?? otherwise);
  if (!body.includes('"stream":true')) {
    calls.chats += 1;
    const waitMs = body.includes('"waitMs"') ? number("waitMs", 0) : 0;
    if (waitMs === 0) return json(response, 200, whole);
    const timer = setTimeout(() => json(response, 200, whole), waitMs);
    response.once("close", () => clearTimeout(timer));
    return;
  }
  onStream(response, { events: number("events", 8), everyMs: number("everyMs", 20), padBytes: number("padBytes", 0) });
}

function onRequest(request: IncomingMessage, response: ServerResponse): void {
  const path = request.url ?? "/";
  if (request.method !== "POST") {
    request.resume();
    if (path === "/bench/calls") return json(response, 200, JSON.stringify(calls));
    return json(response, isLoaded ? 200 : 503, '{"status":"ok"}');
  }
  calls.begun += 1;
  if (flags.stamp !== undefined) response.once("close", () => response.writableFinished || stamp("left"));
  const isUpload = path.startsWith("/v1/audio/");
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => {
    if (isUpload) calls.uploadedBytes += chunk.length;
    else chunks.push(chunk);
  });
  request.once("end", () => {
    if (!isUpload) return onPost(path, Buffer.concat(chunks).toString("latin1"), response);
    calls.uploads += 1;
    json(response, 200, '{"text":"fixed"}');
  });
  request.once("error", () => response.destroy());
}

process.on("SIGTERM", () => {
  stamp("term");
  process.exit(0);
});
stamp("started");
const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, onRequest);
const host = process.env["HOST"] ?? "127.0.0.1";
server.listen({ port: Number(flags.port ?? process.env["PORT"] ?? 0), host, backlog: 4096, reusePort: true }, () => {
  takeMore(server);
  setTimeout(
    () => {
      isLoaded = true;
      stamp("healthy");
    },
    Number(flags["load-ms"] ?? 0),
  );
});

/** Node takes one connection per socket and turn, and turns with a thousand streams are long: 15 more sockets. */
function takeMore(taking: Server): void {
  const address = taking.address();
  if (typeof address !== "object" || address === null) return;
  for (let count = 0; count < 15; count++) {
    const other = new NetServer({ allowHalfOpen: true, noDelay: true }, (socket) => taking.emit("connection", socket));
    other.listen({ port: address.port, host, backlog: 4096, reusePort: true });
  }
}
