import { existsSync } from "node:fs";
import { lstat, mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ProcessRole } from "../api/names.ts";
import { knownPart } from "../api/known-part.ts";
import { recordSchema, type ProcessRecord } from "../api/process-record.ts";
import { setAside } from "../lib/aside.ts";
import { removeLeftovers, writeFileAtomic } from "../lib/atomic-file.ts";
import { isNoSpace } from "../lib/disk-space.ts";
import { readPlainText } from "../lib/small-file.ts";
import { Serial } from "../lib/serial.ts";

/** Names a record among those of one state directory. */
export const recordKey = (slot: string, role: ProcessRole): string => `${slot}.${role}`;

/**
 * Records by `slot.role`, one small file each, mirrored in memory. Only the operator that holds the lock writes them.
 * What is no record of this instance is moved to `<state>/aside/`, never followed and never fatal.
 */
export class RecordBook {
  readonly #directory: string;
  readonly #records = new Map<string, ProcessRecord>();
  /** A removal must not be overtaken by a write that was asked for earlier. */
  readonly #writes = new Serial();
  /** Keys of records that could not be written. */
  readonly #unwritten = new Set<string>();

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Throws when the directory cannot be read: an empty answer would lose engines. */
  static async open(directory: string, instance: string): Promise<RecordBook> {
    const book = new RecordBook(directory);
    await mkdir(directory, { recursive: true });
    await removeLeftovers(directory);
    for (const { file, record } of await readRecords(directory)) {
      if (record?.instance === instance) book.#records.set(recordKey(record.slot, record.role), record);
      else await setAside(dirname(directory), join(directory, file), `processes.${file}`);
    }
    return book;
  }

  get(slot: string, role: ProcessRole): ProcessRecord | undefined {
    return this.#records.get(recordKey(slot, role));
  }

  all(): readonly ProcessRecord[] {
    return [...this.#records.values()];
  }

  /**
   * Known from this moment on; rejects when it cannot be written, and stays known. A full disk is no reason to be without
   * an engine: then `restore` writes it as soon as there is room.
   */
  async put(record: ProcessRecord): Promise<void> {
    const key = recordKey(record.slot, record.role);
    this.#records.set(key, record);
    try {
      await this.#writes.run(() => this.#write(key, record));
      this.#unwritten.delete(key);
    } catch (error) {
      this.#unwritten.add(key);
      if (!isNoSpace(error)) throw error;
    }
  }

  /** Writes what could not be written, and what somebody has deleted. Never rejects: it is asked for again and again. */
  async restore(): Promise<void> {
    for (const [key, record] of this.#records) {
      if (!this.#unwritten.has(key) && existsSync(this.#fileOf(key))) continue;
      try {
        await this.#writes.run(async () => {
          // Removed or replaced meanwhile.
          if (this.#records.get(key) !== record) return;
          await mkdir(this.#directory, { recursive: true });
          await this.#write(key, record);
          this.#unwritten.delete(key);
        });
      } catch {
        this.#unwritten.add(key);
      }
    }
  }

  async #write(key: string, record: ProcessRecord): Promise<void> {
    // `start` is the secret by which the engine is known again: nobody else may read it.
    await writeFileAtomic(this.#fileOf(key), JSON.stringify(record), { fsync: false, mode: 0o600 });
  }

  #fileOf(key: string): string {
    return join(this.#directory, `${key}.json`);
  }

  async remove(slot: string, role: ProcessRole): Promise<void> {
    const key = recordKey(slot, role);
    this.#records.delete(key);
    this.#unwritten.delete(key);
    await this.#writes.run(() => rm(this.#fileOf(key), { force: true }));
  }

  /** Resolves once everything asked for is on disk or has failed. */
  async settled(): Promise<void> {
    await this.#writes.settled();
  }
}

/** Every record file of the directory, read only; `record` is undefined where it does not parse. */
export async function readRecords(
  directory: string,
): Promise<{ readonly file: string; readonly record: ProcessRecord | undefined }[]> {
  const files = (await readdir(directory)).filter((file) => file.endsWith(".json") && !file.startsWith("."));
  return await Promise.all(
    files.map(async (file) => ({ file, record: parse(await readRecord(join(directory, file)), file) })),
  );
}

/** Empty for a directory, a link or a pipe: it is no record, whatever it is called. */
async function readRecord(path: string): Promise<string> {
  if (!(await lstat(path)).isFile()) return "";
  return readPlainText(path);
}

/** The record as it is on disk now; undefined when there is none. */
export function readRecordSync(directory: string, slot: string, role: ProcessRole): ProcessRecord | undefined {
  const file = `${recordKey(slot, role)}.json`;
  try {
    return parse(readPlainText(join(directory, file)), file);
  } catch {
    return undefined;
  }
}

function parse(text: string, file: string): ProcessRecord | undefined {
  try {
    const record = knownPart(recordSchema, JSON.parse(text));
    return record !== undefined && `${recordKey(record.slot, record.role)}.json` === file ? record : undefined;
  } catch {
    return undefined;
  }
}
