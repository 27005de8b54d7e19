import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { installedRecordSchema, type InstalledRecord } from "../../api/installed-record.ts";
import { CommandError } from "../../cli/client.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { parseJson } from "../../lib/json.ts";
import { readText } from "../../lib/read-text.ts";
import type { Layout } from "./layout.ts";

/**
 * The record of an installation; undefined where there is none. Throws CommandError for a record that does not read: it
 * is never taken for a machine without an installation.
 */
export async function readRecord({ record }: Pick<Layout, "record">): Promise<InstalledRecord | undefined> {
  const text = await readText(record);
  if (text === undefined) return undefined;
  const parsed = installedRecordSchema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw new CommandError(
    "install.record_invalid",
    `${record} does not read as the record of an installation`,
    `put it back from a backup, or remove it and run \`berth install\``,
  );
}

/** Replaces the record; it survives a power cut. Rejects with the file system's error. */
export async function writeRecord({ record }: Pick<Layout, "record">, value: InstalledRecord): Promise<void> {
  await mkdir(dirname(record), { recursive: true });
  await writeFileAtomic(record, `${JSON.stringify(value, null, 2)}\n`, { fsync: true, mode: 0o644 });
}
