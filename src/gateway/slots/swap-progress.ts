import { ApiError } from "../../api/errors.ts";
import type { OnRequest } from "../../api/on-request.ts";
import type { SlotStatus } from "../../api/status.ts";
import { failureMessage } from "./failure-messages.ts";

/** The step of a slot for a request that waits for one of its models, in words for the client. */
export function swapProgress(ref: string, status: SlotStatus | undefined): { readonly doing: string } | undefined {
  const choice = status?.onRequest;
  if (status === undefined || choice === undefined) return undefined;
  const { chosen } = choice;
  const held = status.model.ref ?? "no model";
  if (chosen !== ref) return { doing: `${chosen} comes first, then ${ref} is loaded` };
  switch (status.state) {
    case "unloading":
      return { doing: held === ref ? `stopping the engine of ${ref}` : `draining ${held} for ${ref}` };
    case "pulling":
      return { doing: `fetching ${ref}` };
    case "ready":
    case "serving":
    case "idle":
      return held === ref ? undefined : { doing: `preparing ${ref} while ${held} is loaded` };
    case "offline":
    case "starting":
    case "warming":
      return { doing: `loading ${ref}` };
    case "error":
      return { doing: `trying ${ref} again` };
    default:
      return status.state satisfies never;
  }
}

/** The failure of a model that could not be loaded and is not tried again yet. */
export function failureOfRef(
  slot: string,
  choice: OnRequest,
  ref: string,
  now: number,
):
  | { readonly failure: ApiError; readonly reopensInMs: number; readonly failures: number; readonly isStalled: boolean }
  | undefined {
  const failed = choice.failed.find((each) => each.ref === ref);
  if (failed === undefined) return undefined;
  const reopensInMs = Date.parse(failed.retryAt) - now;
  if (reopensInMs <= 0) return undefined;
  const { reason, failures, isStalled, retryAt } = failed;
  const message = failureMessage(reason);
  const failure = new ApiError("slot.failed", {
    message: `slot ${slot} could not load ${ref}: ${message}`,
    details: { slot, ref, state: "error", reason, message, next_retry_at: retryAt },
    headers: isStalled ? { "x-should-retry": "false" } : { "retry-after": String(Math.ceil(reopensInMs / 1000)) },
  });
  return { failure, reopensInMs, failures, isStalled };
}
