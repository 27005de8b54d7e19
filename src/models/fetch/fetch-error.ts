import { withoutSignatures } from "../../api/masked-text.ts";

/** The reasons why a file cannot be fetched. */
export type FetchReason =
  /** The source may not be fetched: an unknown scheme, plain HTTP, or an address of this machine. */
  | "SourceRefused"
  | "SourceNotFound"
  /** The source needs a token, or a licence that was not accepted. */
  | "Unauthorized"
  | "ChecksumMismatch"
  | "SizeMismatch"
  /** The file is complete, and is not in the format that its name says. */
  | "NotAModel"
  /** The file is as long as the server says, and its header says that more belongs to it. */
  | "TruncatedModel"
  | "NoSpace"
  /** This process may not write to the store. */
  | "NoPermission"
  | "FetchFailed"
  /** The engine's own tool is missing or has failed. */
  | "ToolFailed";

/** Reasons that may pass without a change of the source. */
const mayPass: ReadonlySet<FetchReason> = new Set(["NoSpace", "NoPermission", "FetchFailed"]);

/** A file cannot be fetched. The message names the file, the source without what signs it, and what to do. */
export class FetchError extends Error {
  override readonly name = "FetchError";
  readonly reason: FetchReason;
  /** Whether another attempt fails too until a person acts. */
  readonly isTerminal: boolean;
  /** For how many milliseconds the server wants no other attempt. */
  readonly retryAfterMs: number | undefined;

  constructor(reason: FetchReason, message: string, options: ErrorOptions & { readonly retryAfterMs?: number } = {}) {
    super(withoutSignatures(message), options);
    this.reason = reason;
    this.isTerminal = !mayPass.has(reason);
    this.retryAfterMs = options.retryAfterMs;
  }
}
