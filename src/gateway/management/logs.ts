import { once } from "node:events";
import type { FastifyReply } from "fastify";
import { tailLogs } from "../../runtimes/logs.ts";
import type { ManagementContext } from "./context.ts";
import { openEvents, type EventContext } from "./event-response.ts";

/**
 * What an engine wrote: lines as text, with `timestamps` each behind its time, or with `follow` one event per line,
 * until the client leaves or the gateway stops.
 */
export async function sendLogs(
  reply: FastifyReply,
  context: EventContext & Pick<ManagementContext, "config">,
  slot: string,
  { tail, follow, timestamps }: { tail: number; follow: boolean; timestamps: boolean },
): Promise<FastifyReply> {
  const { stateDir } = context.config;
  if (!follow) {
    const lines: string[] = [];
    for await (const { time, line } of tailLogs(stateDir, slot, { tail, follow: false }))
      lines.push(timestamps ? `${time.toISOString()} ${line}\n` : `${line}\n`);
    return await reply.type("text/plain; charset=utf-8").send(lines.join(""));
  }
  const { response, left } = openEvents(reply, context);
  for await (const { time, stream, line } of tailLogs(stateDir, slot, { tail, follow: true, signal: left })) {
    const isTaken = response.write(`data: ${JSON.stringify({ time: time.toISOString(), stream, line })}\n\n`);
    if (!isTaken) await once(response, "drain", { signal: left }).catch(() => undefined);
  }
  response.end();
  return reply;
}
