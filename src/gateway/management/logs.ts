import { once } from "node:events";
import type { FastifyReply } from "fastify";
import { ApiError } from "../../api/errors.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { tailEngineLogs } from "../../runtimes/logs/engine-logs.ts";
import type { KnownSlot } from "../routing/index.ts";
import type { ManagementContext } from "./context.ts";
import { openEvents, type EventContext } from "./event-response.ts";

/**
 * The log of a slot's engines: lines as text, with `timestamps` each after its time, or with `follow` one event per line,
 * until the client disconnects or the gateway stops. A line of a slot with several processes names its process.
 */
export async function sendLogs(
  reply: FastifyReply,
  context: EventContext & Pick<ManagementContext, "config">,
  { name, spec, status }: Pick<KnownSlot, "name" | "spec" | "status">,
  { tail, follow, timestamps }: { tail: number; follow: boolean; timestamps: boolean },
): Promise<FastifyReply> {
  const place = { stateDir: context.config.stateDir, runtime: status?.runtime, env: process.env };
  const hasSeveral = (spec.replicas ?? 1) > 1 || spec.model.rerank !== undefined;
  if (!follow) {
    const lines: string[] = [];
    try {
      for await (const said of tailEngineLogs(place, name, { tail, follow: false })) {
        const named = hasSeveral ? `${said.process} | ${said.line}\n` : `${said.line}\n`;
        lines.push(timestamps ? `${said.time.toISOString()} ${named}` : named);
      }
    } catch (error) {
      throw unreadable(name, error);
    }
    return await reply.type("text/plain; charset=utf-8").send(lines.join(""));
  }
  const { response, left } = openEvents(reply, context);
  try {
    for await (const said of tailEngineLogs(place, name, { tail, follow: true, signal: left })) {
      // Lines that were read before: the response has ended.
      if (left.aborted) break;
      const { time, stream, line } = said;
      const event = { time: time.toISOString(), stream, line, ...(hasSeveral ? { process: said.process } : {}) };
      const isTaken = response.write(`data: ${JSON.stringify(event)}\n\n`);
      if (!isTaken) await once(response, "drain", { signal: left }).catch(() => undefined);
    }
  } catch (error) {
    const { message } = unreadable(name, error);
    if (!left.aborted) response.write(`event: error\ndata: ${JSON.stringify({ message })}\n\n`);
  }
  response.end();
  return reply;
}

/** A cluster's API server refuses, or does not answer. */
function unreadable(slot: string, error: unknown): ApiError {
  return new ApiError("dispatch.upstream_unavailable", {
    message: `the log of ${slot} cannot be read: ${errorMessage(error)}`,
    cause: error,
  });
}
