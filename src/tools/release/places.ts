import { randomUUID } from "node:crypto";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { releaseSchema, type Release } from "../../api/release.ts";
import { CommandError } from "../../cli/client.ts";
import { errorCode } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import type { Layout } from "../install/layout.ts";

/** The hidden files of updates, beside the releases. */
export function updatePlaces({ prefix }: Pick<Layout, "prefix">) {
  return {
    lock: join(prefix, ".update.lock"),
    journal: join(prefix, ".update.json"),
    archive: join(prefix, ".update.tar.gz"),
    /** Another one for each process: a `tar` of a killed update may still write into the last one. */
    unpacked: join(prefix, `.update.unpacked.${randomUUID()}`),
  };
}

/** The files that killed updates have left beside the releases: archives, directories, links of `swapCurrent`, and temporary files. */
const leftover = /^\.(update\.(tar\.gz$|unpacked\.)|\.update\.json\.|installed\.json\.|removed\.|current\.)/;

/**
 * Removes the files that killed updates have left. A directory into which an orphaned process writes in this moment stays
 * until the next time. The caller holds the lock of updates.
 */
export async function removeUpdateLeftovers({ prefix }: Pick<Layout, "prefix">): Promise<void> {
  for (const name of await readdir(prefix)) {
    if (!leftover.test(name)) continue;
    await rm(join(prefix, name), { recursive: true, force: true }).catch((error: unknown) => {
      if (errorCode(error) !== "ENOTEMPTY") throw error;
    });
  }
}

/** `release.json` of a release. Throws CommandError where there is none. */
export async function releaseAt(root: string): Promise<Release> {
  const text = await readFile(join(root, "release.json"), "utf8").catch(() => "");
  const parsed = releaseSchema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw new CommandError("update.archive", `${root} is not a release of Berth`, "download the release again");
}
