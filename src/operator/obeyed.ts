import type { SlotRequest } from "../api/status.ts";
import { wasThere } from "./facts.ts";
import { at, requestOf, type SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";

/** Tokens of every request that was taken into account, to be echoed in status. */
export function handledRequests(input: SlotInput): Readonly<Record<string, string>> {
  const handled: Record<string, string> = { ...input.before?.status.handledRequests };
  for (const { kind, token } of input.requests) handled[kind] = token;
  return handled;
}

/**
 * Requests that have been obeyed, or that a later edit or request has overtaken: to be forgotten once status says so.
 * An unload and a swap stay: they hold until something newer speaks.
 */
export function settledRequests(input: SlotInput, verdict: Verdict): readonly SlotRequest[] {
  return input.requests.filter((request) => isSettled(input, verdict, request));
}

function isSettled(input: SlotInput, verdict: Verdict, request: SlotRequest): boolean {
  const { kind } = request;
  const asked = at(request.requestedAt);
  const isOnDemand = input.spec?.load === "onDemand";
  switch (kind) {
    case "restart":
      return (
        verdict.row === "loaded" && !input.observed.some((process) => wasThere(input, process, request.requestedAt))
      );
    case "load":
      // For an on-demand slot it counts as use until a request does, or its idle time is over.
      return isOnDemand
        ? verdict.row === "offline" || at(input.demand.lastRequestAt) > asked
        : verdict.row === "loaded";
    case "unload": {
      const load = Math.max(at(requestOf(input, "load")?.requestedAt), at(requestOf(input, "restart")?.requestedAt));
      if (load > asked) return true;
      // Forgotten any sooner, the demand before it would load the slot again.
      return isOnDemand ? at(input.demand.lastRequestAt) > asked : request.specHash !== input.specHash;
    }
    case "swap-model":
      return request.model === undefined || request.specModel !== input.spec?.model.default;
    default:
      return kind satisfies never;
  }
}
