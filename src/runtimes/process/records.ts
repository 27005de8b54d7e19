import { existsSync } from "node:fs";
import { lstat, mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { processName, type SlotProcess } from "../../api/process-ref.ts";
import { knownPart } from "../../api/known-part.ts";
import { recordSchema, type ProcessRecord } from "../../api/process-record.ts";
import { setAside } from "../../lib/aside.ts";
import { removeLeftovers, writeFileAtomic } from "../../lib/atomic-file.ts";
import { isNoSpace } from "../../lib/disk-space.ts";
import { readPlainText } from "../../lib/small-file.ts";
import { Serial } from "../../lib/serial.ts";

/** The key of a record among those of one state directory. */
export const recordKey = (process: SlotProcess): string => `${process.slot}.${processName(process)}`;

/**
 * Records by `slot.role` and ordinal, one small file each, mirrored in memory. Only the operator that holds the lock
 * writes them. A file that is no record of this instance is moved to `<state>/aside/`, never followed and never fatal.
 */
export class ProcessRecords {
  readonly #directory: string;
  readonly #records = new Map<string, ProcessRecord>();
  /** An earlier write must not overtake a removal. */
  readonly #writes = new Serial();
  /** Keys of records that could not be written. */
  readonly #unwritten = new Set<string>();

  readonly #check: (() => void) | undefined;

  private constructor(directory: string, check: (() => void) | undefined) {
    this.#directory = directory;
    this.#check = check;
  }

  /**
   * Throws when the directory cannot be read: an empty answer would lose engines. `check` throws where another operator
   * may write the records by now; nothing is written then.
   */
  static async open(directory: string, instance: string, check?: () => void): Promise<ProcessRecords> {
    const book = new ProcessRecords(directory, check);
    await mkdir(directory, { recursive: true });
    await removeLeftovers(directory);
    for (const { file, record } of await readRecords(directory)) {
      if (record?.instance === instance) book.#records.set(recordKey(record), record);
      else await setAside(dirname(directory), join(directory, file), `processes.${file}`);
    }
    return book;
  }

  get(process: SlotProcess): ProcessRecord | undefined {
    return this.#records.get(recordKey(process));
  }

  all(): readonly ProcessRecord[] {
    return [...this.#records.values()];
  }

  /**
   * Known from this moment on; rejects when it cannot be written, and stays known. A full disk must not prevent an
   * engine: then `restore` writes it as soon as there is room.
   */
  async put(record: ProcessRecord): Promise<void> {
    const key = recordKey(record);
    this.#records.set(key, record);
    try {
      await this.#writes.run(() => this.#write(key, record));
      this.#unwritten.delete(key);
    } catch (error) {
      this.#unwritten.add(key);
      if (!isNoSpace(error)) throw error;
    }
  }

  /** Writes records that could not be written, and deleted ones. Never rejects: it is called repeatedly. */
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
    // `start` is the secret that identifies the engine: only the owner may read it.
    this.#check?.();
    await writeFileAtomic(this.#fileOf(key), JSON.stringify(record), { fsync: false, mode: 0o600 });
  }

  #fileOf(key: string): string {
    return join(this.#directory, `${key}.json`);
  }

  async remove(process: SlotProcess): Promise<void> {
    const key = recordKey(process);
    this.#records.delete(key);
    this.#unwritten.delete(key);
    await this.#writes.run(async () => {
      this.#check?.();
      await rm(this.#fileOf(key), { force: true });
    });
  }

  /** Resolves once all writes so far are on disk or have failed. */
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

/** Empty for a directory, a link or a pipe: it is no record under any name. */
async function readRecord(path: string): Promise<string> {
  if (!(await lstat(path)).isFile()) return "";
  return readPlainText(path);
}

/** The present record on disk; undefined without one. */
export function readRecordSync(directory: string, process: SlotProcess): ProcessRecord | undefined {
  const file = `${recordKey(process)}.json`;
  try {
    return parse(readPlainText(join(directory, file)), file);
  } catch {
    return undefined;
  }
}

function parse(text: string, file: string): ProcessRecord | undefined {
  try {
    const record = knownPart(recordSchema, JSON.parse(text));
    return record !== undefined && `${recordKey(record)}.json` === file ? record : undefined;
  } catch {
    return undefined;
  }
}
