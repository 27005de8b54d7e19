import { cell, isRecord, recordsIn } from "./output.ts";

/** The models that requests may choose, and those that could not be loaded. */
export function choiceLines(choice: unknown): string[] {
  if (!isRecord(choice)) return [];
  const refs = Array.isArray(choice["refs"]) ? choice["refs"].map(cell) : [];
  const failed = recordsIn(choice["failed"]);
  return [
    `${"on request:".padEnd(20)}${refs.join(", ")}; chosen is ${cell(choice["chosen"])}`,
    ...failed.map(
      ({ ref, reason, message, retry_at: retryAt }) =>
        `${"not loaded:".padEnd(20)}${cell(ref)} ${cell(reason)}: ${cell(message)}; next try ${cell(retryAt)}`,
    ),
  ];
}
