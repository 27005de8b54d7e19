import type { RequestView } from "../../api/management/request-routes.ts";
import type { RecentRequest } from "../telemetry/recent-requests.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";

/** Handlers of the list of requests, and of what was asked lately. */
export function requestHandlers({ recent, history }: ManagementContext): Pick<Handlers, "requests" | "traffic"> {
  return {
    traffic: ({ query: { minutes } }) => history.view(minutes),
    requests: ({ query: { limit } }) => ({ object: "list", data: recent.list(limit).map(viewOfRequest) }),
  };
}

function viewOfRequest(request: RecentRequest): RequestView {
  const { endedAt, requestId, path, requestedModel, resolvedModel, firstTokenMs, engineMs, body } = request;
  return {
    id: requestId,
    ended_at: new Date(endedAt).toISOString(),
    route: path,
    slot: request.slot,
    model: requestedModel,
    resolved: resolvedModel ?? null,
    stream: request.isStream,
    status: request.code,
    error: request.error ?? null,
    engine_error: request.engineText ?? null,
    ms: Math.round(request.ms),
    held_ms: Math.round(request.heldMs),
    queued_ms: Math.round(request.queuedMs),
    first_token_ms: firstTokenMs === 0 ? null : Math.round(firstTokenMs),
    engine_ms: engineMs === undefined ? null : Math.round(engineMs),
    tokens_in: request.tokensIn ?? null,
    tokens_out: request.tokensOut ?? null,
    ...(body === undefined ? {} : { body }),
  };
}
