import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { releaseSchema, type Release } from "../../api/release.ts";
import { CommandError } from "../../cli/client.ts";
import { parseJson } from "../../lib/json.ts";
import type { Layout } from "../install/layout.ts";

/** The hidden files of updates, beside the releases. */
export function updatePlaces({ prefix }: Pick<Layout, "prefix">) {
  return {
    lock: join(prefix, ".update.lock"),
    journal: join(prefix, ".update.json"),
    archive: join(prefix, ".update.tar.gz"),
    unpacked: join(prefix, ".update.unpacked"),
  };
}

/** `release.json` of a release. Throws CommandError where there is none. */
export async function releaseAt(root: string): Promise<Release> {
  const text = await readFile(join(root, "release.json"), "utf8").catch(() => "");
  const parsed = releaseSchema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw new CommandError("update.archive", `${root} is not a release of Berth`, "download the release again");
}
