import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import type { ManagementContext } from "./context.ts";

export interface EventContext {
  readonly gate: Pick<ManagementContext["gate"], "mayStill">;
  readonly stopping: AbortSignal;
}

/** A revoked or downgraded token ends its open streams after this time at most. */
const recheckMs = 1000;
const heartbeatMs = 15_000;

interface OpenEvents {
  readonly response: ServerResponse;
  readonly left: AbortSignal;
}

/**
 * Turns a reply into a stream of server-sent events, with a comment every 15 s: proxies do not time out, and a client that
 * has vanished is noticed. `left` is aborted when the client has disconnected, has lost its right, or the gateway stops: the
 * caller ends the stream then.
 */
export function openEvents(reply: FastifyReply, { gate, stopping }: EventContext): OpenEvents {
  reply.hijack();
  const { raw, request } = reply;
  const gone = new AbortController();
  const { scope } = request.routeOptions.config;
  const recheck = setInterval(() => {
    if (scope !== undefined && gate.mayStill(request.raw, scope)) return;
    gone.abort();
    raw.end();
  }, recheckMs).unref();
  const heartbeat = setInterval(() => {
    if (!raw.writableEnded) raw.write(": still here\n\n");
  }, heartbeatMs);
  const leave = (): void => {
    clearInterval(recheck);
    clearInterval(heartbeat);
    stopping.removeEventListener("abort", leave);
    gone.abort();
  };
  // Not AbortSignal.any: until its first listener, that misses a source that is aborted and then collected (Node 24.21).
  stopping.addEventListener("abort", leave);
  raw.once("close", leave);
  // A client that disconnected before causes no further event.
  if (raw.destroyed || stopping.aborted) leave();
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) raw.setHeader(name, value);
  raw.writeHead(200, {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
  });
  raw.flushHeaders();
  return { response: raw, left: gone.signal };
}

/** Keeps the stream open until `left` is aborted; then ends it. */
export async function stayOpen({ response, left }: OpenEvents): Promise<void> {
  if (!left.aborted) await once(left, "abort");
  if (!response.writableEnded) response.end();
}
