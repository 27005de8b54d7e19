import { z } from "zod";

/** The builds of a release: the kernel, and the processor as Node names it. */
export const releaseTargets = ["linux-x64", "linux-arm64"] as const;
export type ReleaseTarget = (typeof releaseTargets)[number];

export const releaseChannels = ["stable", "nightly"] as const;
export type ReleaseChannel = (typeof releaseChannels)[number];

/** The number of the state directory's format that this version reads and writes. */
export const stateFormat = 1;

/** Semantic versioning 2.0.0 without build metadata. A version is also the name of a directory. */
const versionPattern =
  /^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(-(0|[1-9]\d{0,8}|\d*[a-zA-Z-][\da-zA-Z-]*)(\.(0|[1-9]\d{0,8}|\d*[a-zA-Z-][\da-zA-Z-]*))*)?$/;

export const releaseVersionSchema = z
  .string()
  .max(64)
  .regex(versionPattern, "a version, such as 0.2.0 or 0.2.0-beta.1");

const stateFormatSchema = z.int().min(1);
const bytesSchema = z.int().min(0);

/** `release.json` of an unpacked release. Fields that a later version adds are left out. */
export const releaseSchema = z.object({
  version: releaseVersionSchema,
  target: z.enum(releaseTargets),
  state_format: stateFormatSchema,
  /** The index of its publisher. */
  update_url: z.url({ protocol: /^https?$/ }).optional(),
  /** Room that the tree needs, without this file: each file rounded up to 4 KiB, and 4 KiB for each directory. */
  unpacked_bytes: bytesSchema,
});
export type Release = z.output<typeof releaseSchema>;

const releaseFileSchema = z.object({
  /** Absolute, or relative to the index. */
  url: z.string().min(1),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits"),
  bytes: bytesSchema,
  unpacked_bytes: bytesSchema,
});
export type ReleaseFile = z.output<typeof releaseFileSchema>;

const indexEntrySchema = z.object({
  version: releaseVersionSchema,
  released: z.iso.date(),
  state_format: stateFormatSchema,
  files: z.partialRecord(z.enum(releaseTargets), releaseFileSchema),
});
export type IndexEntry = z.output<typeof indexEntrySchema>;

/** `index.json` of a publisher: the releases of each channel, newest first. */
export const releaseIndexSchema = z.object({
  format: z.literal(1, "1: a newer index needs a newer Berth"),
  channels: z.partialRecord(z.enum(releaseChannels), z.array(indexEntrySchema)),
});
export type ReleaseIndex = z.output<typeof releaseIndexSchema>;

/** Below 0 where `left` is the older version, 0 for the same one. The order of semantic versioning 2.0.0, section 11. */
export function compareVersions(left: string, right: string): number {
  const [leftCore = "", ...leftPre] = left.split("-");
  const [rightCore = "", ...rightPre] = right.split("-");
  const byCore = compareParts(leftCore.split("."), rightCore.split("."));
  if (byCore !== 0) return byCore;
  if (leftPre.length === 0 || rightPre.length === 0) return rightPre.length - leftPre.length;
  return compareParts(leftPre.join("-").split("."), rightPre.join("-").split("."));
}

function compareParts(left: readonly string[], right: readonly string[]): number {
  for (const [index, part] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    if (part === other) continue;
    const isNumber = /^\d+$/.test(part);
    const isOtherNumber = /^\d+$/.test(other);
    if (isNumber && isOtherNumber) return Number(part) - Number(other);
    if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
    return part < other ? -1 : 1;
  }
  return left.length - right.length;
}
