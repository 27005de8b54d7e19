import type { ManagementContext } from "./context.ts";

interface Emptied {
  readonly reason: string;
  readonly message: string;
  /** The directory. */
  readonly file: string;
}

/** Directories that have lost all their manifests. The declarations stay in force, because nothing proves a deletion. */
export function emptiedDirectories({ operator }: Pick<ManagementContext, "operator">): readonly Emptied[] {
  return (operator()?.problems ?? []).flatMap(({ reason, message, file }) =>
    reason === "SourceEmpty" && file !== undefined ? [{ reason, message, file }] : [],
  );
}
