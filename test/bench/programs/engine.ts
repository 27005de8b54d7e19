/**
 * A DOUBLE, not an engine: answers fixed bytes as fast as Node can, so that a benchmark measures what stands before
 * it. Every event of a stream carries the time at which it was written. Flags, all optional:
 *
 *   --port N (PORT) --model NAME (MODEL)   --load-ms N  health is 503 until then
 *
 * A streaming request asks for its number of `events`.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import { parseArgs } from "node:util";
import { answerBody, eventBytes, monotonicUs, streamTail } from "./wire.ts";

const everyMs = 20;

const { values: flags } = parseArgs({
  options: { port: { type: "string" }, model: { type: "string" }, "load-ms": { type: "string" } },
});
const model = flags.model ?? (process.env["MODEL"] || "fixed");
const whole = answerBody(model);
let isLoaded = false;

interface Stream {
  readonly response: ServerResponse;
  readonly socket: Socket;
  readonly events: number;
  next: number;
  dueMs: number;
}

const streams = new Set<Stream>();
let ticking: NodeJS.Timeout | undefined;

/** One timer for all: with a thousand timers the engine itself would be measured. */
function tick(): void {
  const now = performance.now();
  for (const stream of streams) {
    if (stream.dueMs > now) continue;
    // A real engine waits for its reader too.
    if (stream.socket.writableNeedDrain) continue;
    stream.dueMs += everyMs;
    const bytes = eventBytes(model, stream.next, monotonicUs());
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

function onStream(response: ServerResponse, events: number): void {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  // The head is out; what follows goes to the socket in chunks made here, until `end` writes the last one.
  response.flushHeaders();
  const { socket } = response;
  if (socket === null) return;
  const stream = { response, socket, events, next: 0, dueMs: performance.now() };
  streams.add(stream);
  response.once("close", () => streams.delete(stream));
  ticking ??= setInterval(tick, 1);
}

function json(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

function onRequest(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.once("end", () => {
    const body = Buffer.concat(chunks).toString("latin1");
    if (!isLoaded) json(response, 503, '{"error":{"message":"loading"}}');
    else if (request.method !== "POST") json(response, 200, '{"status":"ok"}');
    else if (!body.includes('"stream":true')) json(response, 200, whole);
    else onStream(response, Number(/"events":(\d+)/.exec(body)?.[1] ?? 8));
  });
  request.once("error", () => response.destroy());
}

process.on("SIGTERM", () => process.exit(0));
const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, onRequest);
const address = {
  port: Number(flags.port ?? process.env["PORT"] ?? 0),
  host: process.env["HOST"] ?? "127.0.0.1",
  backlog: 4096,
  reusePort: true,
};
server.listen(address, () => {
  // Node takes one connection per socket and turn, and turns with a thousand streams are long: 15 more sockets.
  for (let count = 0; count < 15; count++)
    new NetServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit("connection", socket)).listen(
      address,
    );
  setTimeout(() => (isLoaded = true), Number(flags["load-ms"] ?? 0));
});
