import { join } from "node:path";
import { partialRecordSchema, rangeBytes, type Content, type PartialRecord } from "../../api/partial-record.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { parseJson } from "../../lib/json.ts";
import { readText } from "../../lib/read-text.ts";

const recordPath = (directory: string): string => join(directory, "record.json");

/** Replaces the record. It survives a power cut once the promise resolves. */
export async function writePartial(directory: string, record: PartialRecord): Promise<void> {
  const text = JSON.stringify({ schema: 1, rangeBytes, ...record });
  await writeFileAtomic(recordPath(directory), text, { fsync: true, mode: 0o640 });
}

/** Undefined if there is no record, or no valid one: the file is fetched anew. Rejects with the system's other errors. */
export async function readPartial(directory: string): Promise<PartialRecord | undefined> {
  const text = await readText(recordPath(directory));
  return text === undefined ? undefined : partialRecordSchema.safeParse(parseJson(text)).data;
}

/** Whether the partial file belongs to the server's present content. Without an identity this is unknown. */
export function isSameContent(known: Content, now: Content): boolean {
  if (known.source !== now.source || known.sizeBytes !== now.sizeBytes) return false;
  if (now.sha256 !== undefined || known.sha256 !== undefined) return known.sha256 === now.sha256;
  return now.validator !== undefined && known.validator === now.validator;
}
