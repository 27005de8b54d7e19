import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";

/** Takes a reply over as a stream of server-sent events; `left` is aborted when the client has gone. */
export function openEvents(reply: FastifyReply): { response: ServerResponse; left: AbortSignal } {
  reply.hijack();
  const { raw } = reply;
  const left = new AbortController();
  raw.once("close", () => left.abort());
  if (raw.destroyed) left.abort();
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) raw.setHeader(name, value);
  raw.writeHead(200, {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
  });
  raw.flushHeaders();
  return { response: raw, left: left.signal };
}
