import type { RequestView } from "../../api/management/request-routes.ts";
import type { RecentRequest } from "../telemetry/recent-requests.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";

/** Handler of the list of requests. */
export function requestHandlers({ recent }: ManagementContext): Pick<Handlers, "requests"> {
  return {
    requests: ({ query: { limit } }) => ({ object: "list", data: recent.list(limit).map(viewOfRequest) }),
  };
}

function viewOfRequest({ endedAt, ended, body }: RecentRequest): RequestView {
  const { requestId, path, slot, code, seconds, failure, record } = ended;
  const { engine, firstTokenMs } = record;
  return {
    id: requestId,
    ended_at: new Date(endedAt).toISOString(),
    route: path,
    slot,
    model: record.requestedModel,
    resolved: engine?.model ?? null,
    stream: record.isStream,
    status: code,
    error: failure?.code ?? null,
    ms: Math.round(seconds * 1000),
    held_ms: Math.round(record.heldMs),
    queued_ms: Math.round(record.queuedMs),
    first_token_ms: firstTokenMs === 0 ? null : Math.round(firstTokenMs),
    engine_ms: engine === undefined ? null : Math.round(engine.ms),
    tokens_in: engine?.tokensIn ?? null,
    tokens_out: engine?.tokensOut ?? null,
    ...(body === undefined ? {} : { body }),
  };
}
