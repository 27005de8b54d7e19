import type { ErrorCode } from "../../api/errors.ts";
import { pullViewSchema, type PullView } from "../../api/management/pull-views.ts";
import { withoutSignatures } from "../../api/masked-text.ts";
import type { PullStatus } from "../../api/pull.ts";
import { viewFrom } from "./view-from.ts";

const codes: Readonly<Record<string, ErrorCode>> = {
  ChecksumMismatch: "model.checksum_mismatch",
  SizeMismatch: "model.checksum_mismatch",
  NoSpace: "model.insufficient_disk",
  NotAModel: "model.unsupported_format",
  TruncatedModel: "model.unsupported_format",
};

const pullOf = viewFrom(pullViewSchema);

/** A pull as the API shows it. */
export function pullView(status: PullStatus): PullView {
  const { bytesDone, bytesTotal, bytesPerSecond, error } = status;
  const left = bytesTotal === undefined ? undefined : Math.max(0, bytesTotal - bytesDone);
  const isMoving = status.state === "running" && bytesPerSecond !== undefined && bytesPerSecond > 0;
  return pullOf({
    ...status,
    model: status.ref,
    sources: status.files.map(({ source }) => withoutSignatures(source)),
    forSlot: status.isForSlot === true,
    isCheck: status.isCheck === true,
    bytesPerSecond: status.state === "running" ? bytesPerSecond : null,
    etaSeconds: isMoving && left !== undefined ? Math.ceil(left / bytesPerSecond) : null,
    error: error === undefined ? null : { code: codes[error.reason] ?? "model.pull_failed", ...error },
  });
}
