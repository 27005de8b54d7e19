import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { publishedOperatorSchema, publishedSlotSchema, type PublishedSlot } from "../../src/api/status.ts";

/** A slot as the operator has published it; undefined before. */
export async function readPublished(stateDir: string, slot: string): Promise<PublishedSlot | undefined> {
  const text = await readFile(join(stateDir, "slots", `${slot}.json`), "utf8").catch(() => undefined);
  return text === undefined ? undefined : publishedSlotSchema.parse(JSON.parse(text));
}

/** The process of the operator that has published last. */
export function operatorPid({ stateDir }: { readonly stateDir: string }): number {
  return publishedOperatorSchema.parse(JSON.parse(readFileSync(join(stateDir, "operator.json"), "utf8"))).pid;
}
