import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { publishedSlotSchema, type PublishedSlot } from "../../src/api/status.ts";

/** What the operator has published of a slot; undefined before. */
export async function readPublished(stateDir: string, slot: string): Promise<PublishedSlot | undefined> {
  const text = await readFile(join(stateDir, "slots", `${slot}.json`), "utf8").catch(() => undefined);
  return text === undefined ? undefined : publishedSlotSchema.parse(JSON.parse(text));
}
