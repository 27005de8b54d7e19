import { z } from "zod";

/**
 * `installed.json` beside the releases of an installation: what Berth has made on this machine. The next versions read it
 * too (docs/decisions.md 27): a new field is optional.
 */
export const installedRecordSchema = z.object({
  /** The release that `current` leads to. */
  version: z.string().min(1),
  /** Earlier releases, newest first. */
  previous: z.array(z.string()).default([]),
  /** SHA-256, in hex, of the text that was written into each unit: another text there is a person's. */
  units: z.record(z.string(), z.string()).default({}),
  /** Settings or units are written that services which run have not read yet. */
  restart: z.literal(true).optional(),
  made: z
    .object({
      user: z.literal(true).optional(),
      group: z.literal(true).optional(),
      /** Directories, in the order in which they were made. */
      paths: z.array(z.string()).default([]),
    })
    .default({ paths: [] }),
  /** The edge proxy was left out by `--no-edge`. */
  no_edge: z.boolean().optional(),
  /** The configuration of the edge proxy, with the SHA-256 of its text. `loaded`: Caddy has taken it. */
  proxy: z.object({ file: z.string(), sha256: z.string(), loaded: z.literal(true).optional() }).optional(),
});
export type InstalledRecord = z.output<typeof installedRecordSchema>;
