import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";

/**
 * Takes a reply over as a stream of server-sent events; `left` is aborted when the client has gone or the
 * gateway stops: whoever opened it ends it then.
 */
export function openEvents(
  reply: FastifyReply,
  stopping: AbortSignal,
): { response: ServerResponse; left: AbortSignal } {
  reply.hijack();
  const { raw } = reply;
  const gone = new AbortController();
  raw.once("close", () => gone.abort());
  if (raw.destroyed) gone.abort();
  const left = AbortSignal.any([gone.signal, stopping]);
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) raw.setHeader(name, value);
  raw.writeHead(200, {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
  });
  raw.flushHeaders();
  return { response: raw, left };
}
