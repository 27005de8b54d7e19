import type { SlotStatus } from "../../api/status.ts";
import type { Waiter, WaitQueue } from "./wait-queue.ts";

/** The wait of a client, as it is reported to the client. */
export interface WaitReport {
  /** A slot or an upstream, with its name. */
  readonly at: "slot" | "upstream";
  readonly name: string;
  /** `queued` at a loaded slot, else the slot's state; `offline` while nobody knows whether its engines still run. */
  readonly state: string;
  readonly position: number;
  readonly progress: number | undefined;
  /** The slot's step before it loads the requested model; absent: `state` says all. */
  readonly doing?: string;
}

/** `waiter`: undefined for a request between two attempts, which is not in the queue. */
export function waitReportOf(
  { slot, ref, queue, reportedState }: WaitQueue,
  status: SlotStatus | undefined,
  waiter: Waiter | undefined,
): WaitReport {
  const wait = { at: "slot", name: slot, position: waiter === undefined ? 0 : queue.position(waiter) } as const;
  if (queue.gate !== "open" && reportedState !== undefined)
    return { ...wait, state: reportedState, progress: undefined };
  const { bytesDone, bytesTotal } = status?.progress ?? {};
  return {
    ...wait,
    state: queue.gate === "open" ? "queued" : (status?.state ?? "offline"),
    progress: bytesDone === undefined || !bytesTotal ? undefined : Math.floor((100 * bytesDone) / bytesTotal),
    ...(ref === undefined ? {} : swapProgress(ref, status)),
  };
}

/** The step of a slot for a request that waits for one of its models, in words for the client. */
function swapProgress(ref: string, status: SlotStatus | undefined): { readonly doing: string } | undefined {
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
