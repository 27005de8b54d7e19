import { z } from "zod";

/** `format.json` of a state directory; `stateFormat` (src/api/release.ts) is this version's number. */
export const writtenFormatSchema = z.object({
  /** The number of the format, which grows where an earlier release could not read the state any more. */
  format: z.int().min(1),
  /** The version of the operator that has written it. */
  version: z.string(),
});
export type WrittenFormat = z.output<typeof writtenFormatSchema>;

/** The name of an installation in a cluster, which its engines carry. */
export const installationSchema = z.looseObject({ instance: z.string() });
