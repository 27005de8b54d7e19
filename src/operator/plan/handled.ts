import type { SlotRequest } from "../../api/status.ts";
import { wasThere } from "./facts.ts";
import { at, requestOf, type SlotInput } from "./input.ts";
import type { Decision } from "./decision.ts";

/** Tokens of every request that the decision has used, for status. */
export function handledRequests(input: SlotInput): Readonly<Record<string, string>> {
  const handled: Record<string, string> = { ...input.before?.status.handledRequests };
  for (const { kind, token } of input.requests) handled[kind] = token;
  return handled;
}

/**
 * Requests that have been handled, or that a later edit or request has replaced: removed once status says so. An unload
 * and a swap stay: they hold until a newer one.
 */
export function settledRequests(input: SlotInput, decision: Decision): readonly SlotRequest[] {
  return input.requests.filter((request) => isSettled(input, decision, request));
}

function isSettled(input: SlotInput, decision: Decision, request: SlotRequest): boolean {
  const { kind } = request;
  const requestedAtMs = at(request.requestedAt);
  const isOnDemand = input.spec?.load === "onDemand";
  switch (kind) {
    case "restart":
      return (
        decision.severity === "loaded" &&
        !input.observed.some((process) => wasThere(input, process, request.requestedAt))
      );
    case "load":
      // For an on-demand slot it counts as use until a request does, or its idle time is over.
      return isOnDemand
        ? decision.severity === "off" || at(input.demand.lastRequestAt) > requestedAtMs
        : decision.severity === "loaded";
    case "unload": {
      const load = Math.max(at(requestOf(input, "load")?.requestedAt), at(requestOf(input, "restart")?.requestedAt));
      if (load > requestedAtMs) return true;
      // If it were removed sooner, the earlier demand would load the slot again.
      return isOnDemand ? at(input.demand.lastRequestAt) > requestedAtMs : request.specHash !== input.specHash;
    }
    case "swap-model":
      return request.model === undefined || request.specModel !== input.spec?.model.default;
    case "benchmark":
      return true;
    default:
      return kind satisfies never;
  }
}
