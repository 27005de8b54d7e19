import type { SlotDetail } from "../api/management/views.ts";
import { cell } from "./output.ts";
import type { Received } from "./received.ts";

/** The models that requests may choose, and those that could not be loaded. */
export function choiceLines(choice: Received<SlotDetail["on_request"]>): string[] {
  if (choice === null || choice === undefined) return [];
  return [
    `${"on request:".padEnd(20)}${(choice.refs ?? []).map(cell).join(", ")}; chosen is ${cell(choice.chosen)}`,
    ...(choice.failed ?? []).map(
      ({ ref, reason, message, retry_at: retryAt }) =>
        `${"not loaded:".padEnd(20)}${cell(ref)} ${cell(reason)}: ${cell(message)}; next try ${cell(retryAt)}`,
    ),
  ];
}
