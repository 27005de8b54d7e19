/** What a refusal means for a conversation that is to be kept. */
export type Verdict =
  /** Another text of it was kept meanwhile, at that `updated_at`. */
  | { readonly kind: "changed"; readonly keptAt: string }
  /** The conversation has been deleted meanwhile, on another device. */
  | { readonly kind: "deleted" }
  /** The server may take it later: in that time, where it says one. */
  | { readonly kind: "later"; readonly seconds?: number }
  /** The server refuses this text each time. */
  | { readonly kind: "final" };

/** A refusal by the server, as `ApiFailure` has it. */
export interface Refusal {
  /** 0: no server answers. */
  readonly status: number;
  readonly code: string;
  readonly details?: unknown;
  readonly retryAfterSeconds?: number | undefined;
}

export function verdictOfRefusal({ status, code, details, retryAfterSeconds }: Refusal): Verdict {
  if (code === "config.changed" && typeof details === "object" && details !== null && "updated_at" in details) {
    if (typeof details.updated_at === "string") return { kind: "changed", keptAt: details.updated_at };
    if (details.updated_at === null) return { kind: "deleted" };
  }
  // A person deletes something, or sends less, first.
  if ([400, 403, 413, 422].includes(status)) return { kind: "final" };
  return retryAfterSeconds === undefined ? { kind: "later" } : { kind: "later", seconds: retryAfterSeconds };
}
