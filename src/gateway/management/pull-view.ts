import type { ErrorCode } from "../../api/errors.ts";
import type { PullView } from "../../api/management/pull-views.ts";
import { withoutSignatures } from "../../api/masked-text.ts";
import type { PullStatus } from "../../api/pull.ts";

const codes: Readonly<Record<string, ErrorCode>> = {
  ChecksumMismatch: "model.checksum_mismatch",
  SizeMismatch: "model.checksum_mismatch",
  NoSpace: "model.insufficient_disk",
  NotAModel: "model.unsupported_format",
  TruncatedModel: "model.unsupported_format",
};

/** A pull as the API shows it. */
export function pullView(status: PullStatus): PullView {
  const { bytesDone, bytesTotal, bytesPerSecond, error } = status;
  const left = bytesTotal === undefined ? undefined : Math.max(0, bytesTotal - bytesDone);
  const isMoving = status.state === "running" && bytesPerSecond !== undefined && bytesPerSecond > 0;
  return {
    id: status.id,
    model: status.ref,
    state: status.state,
    sources: status.files.map(({ source }) => withoutSignatures(source)),
    for_slot: status.isForSlot === true,
    is_check: status.isCheck === true,
    bytes_done: bytesDone,
    bytes_total: bytesTotal ?? null,
    bytes_per_second: status.state === "running" ? (bytesPerSecond ?? null) : null,
    eta_seconds: isMoving && left !== undefined ? Math.ceil(left / bytesPerSecond) : null,
    stalls: status.stalls,
    requested_at: status.requestedAt ?? null,
    ended_at: status.endedAt ?? null,
    retry_at: status.retryAt ?? null,
    error: error === undefined ? null : { code: codes[error.reason] ?? "model.pull_failed", ...error },
  };
}
