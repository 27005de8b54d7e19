import type { AccessLog } from "../telemetry/access-log.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { RecentRequests } from "../telemetry/recent-requests.ts";
import type { EndedRequest } from "../telemetry/request-record.ts";
import type { Call } from "./call.ts";

export interface Records {
  readonly metrics: GatewayMetrics;
  readonly log: AccessLog;
  readonly recent?: Pick<RecentRequests, "add">;
}

/** Counts and logs a request whose answer was sent or has failed, or whose client has disconnected. */
export function record(call: Call, { metrics, log, recent }: Records): void {
  const { response, route, requestId, slot, seconds, answer, trace } = call;
  const { failure } = answer;
  // The gateway cuts an answer that cannot carry its failure any more; its client has not left.
  const code = response.writableFinished ? response.statusCode : (failure?.status ?? 499);
  metrics.ended(route.path, slot, code, seconds);
  if (failure !== undefined) metrics.failed(slot, failure, answer.isAnswered);
  const endedAt = Date.now();
  const ended: EndedRequest = {
    endedAt,
    requestId,
    path: route.path,
    slot,
    code,
    seconds,
    failure,
    record: call.record,
  };
  log.closed(ended);
  recent?.add(ended);
  trace?.ended?.(ended);
}
