import type { SlotRequest } from "../../api/status.ts";
import { at, isFromAhead, type SlotInput } from "../plan/input.ts";

/**
 * The pending requests of a slot. A request from the future counts from now on: otherwise it would be newer than every
 * start until its time, and restart or unload the slot repeatedly.
 */
export function pendingRequests(requests: readonly SlotRequest[], now: Date): Pick<SlotInput, "requests" | "redated"> {
  const isAhead = ({ requestedAt }: SlotRequest): boolean => isFromAhead(at(requestedAt), now);
  const redated = requests.filter(isAhead).map((request) => ({ ...request, requestedAt: now.toISOString() }));
  return { requests: [...requests.filter((request) => !isAhead(request)), ...redated], redated };
}
