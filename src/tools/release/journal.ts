import { rm } from "node:fs/promises";
import { z } from "zod";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { parseJson } from "../../lib/json.ts";
import { readText } from "../../lib/read-text.ts";
import type { Layout } from "../install/layout.ts";
import { updatePlaces } from "./places.ts";

/** The change from one release to another that is under way; what a killed update has left. */
const journalSchema = z.object({
  from: z.string(),
  to: z.string(),
  /** True: `to` has failed, and `from` is put back. */
  isGoingBack: z.boolean(),
  /** Which services ran before: one that fails to start does not run all the time. */
  runs: z.object({ operator: z.boolean(), gateway: z.boolean() }),
  /** The slots that were ready before. */
  slots: z.array(z.string()),
});
export type Journal = z.output<typeof journalSchema>;

/** Undefined where no change is under way. A journal that this release does not read is ignored. */
export async function readJournal(layout: Pick<Layout, "prefix">): Promise<Journal | undefined> {
  const text = await readText(updatePlaces(layout).journal);
  return text === undefined ? undefined : journalSchema.safeParse(parseJson(text)).data;
}

/** Resolves once the journal is on the disk. */
export async function writeJournal(layout: Pick<Layout, "prefix">, journal: Journal): Promise<void> {
  await writeFileAtomic(updatePlaces(layout).journal, JSON.stringify(journal), { fsync: true });
}

export async function removeJournal(layout: Pick<Layout, "prefix">): Promise<void> {
  await rm(updatePlaces(layout).journal, { force: true });
}
