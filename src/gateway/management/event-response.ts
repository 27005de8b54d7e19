import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import type { ManagementContext } from "./context.ts";

export interface EventContext {
  readonly authenticator: Pick<ManagementContext["authenticator"], "mayStill">;
  readonly stopping: AbortSignal;
}

/** A token that is revoked, or gets a lower scope, ends what it has open after this at most. */
const lookMs = 1000;

/**
 * Takes a reply over as a stream of server-sent events; `left` is aborted when the client has gone, may see it no
 * longer, or the gateway stops: whoever opened it ends it then.
 */
export function openEvents(
  reply: FastifyReply,
  { authenticator, stopping }: EventContext,
): { response: ServerResponse; left: AbortSignal } {
  reply.hijack();
  const { raw, request } = reply;
  const gone = new AbortController();
  const { scope } = request.routeOptions.config;
  const looking = setInterval(() => {
    if (scope !== undefined && authenticator.mayStill(request.raw, scope)) return;
    gone.abort();
    raw.end();
  }, lookMs).unref();
  const leave = (): void => {
    clearInterval(looking);
    gone.abort();
  };
  raw.once("close", leave);
  // A client that left before is told of by no event any more.
  if (raw.destroyed) leave();
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
