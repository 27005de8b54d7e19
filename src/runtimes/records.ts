import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessRole } from "../api/names.ts";
import { recordSchema, type ProcessRecord } from "../api/process-record.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";

export const recordKey = (slot: string, role: ProcessRole): string => `${slot}.${role}`;

/** Records by `slot.role`, one small file each, mirrored in memory. Only one operator writes them. */
export class RecordBook {
  readonly #directory: string;
  readonly #records = new Map<string, ProcessRecord>();

  private constructor(directory: string) {
    this.#directory = directory;
  }

  static async open(directory: string): Promise<RecordBook> {
    const book = new RecordBook(directory);
    await mkdir(directory, { recursive: true });
    for (const file of await readdir(directory)) {
      if (!file.endsWith(".json") || file.startsWith(".")) continue;
      const parsed = parse(await readFile(join(directory, file), "utf8"));
      if (parsed !== undefined) book.#records.set(recordKey(parsed.slot, parsed.role), parsed);
    }
    return book;
  }

  get(slot: string, role: ProcessRole): ProcessRecord | undefined {
    return this.#records.get(recordKey(slot, role));
  }

  all(): readonly ProcessRecord[] {
    return [...this.#records.values()];
  }

  async put(record: ProcessRecord): Promise<void> {
    const key = recordKey(record.slot, record.role);
    this.#records.set(key, record);
    await writeFileAtomic(join(this.#directory, `${key}.json`), JSON.stringify(record), { fsync: false });
  }

  async remove(slot: string, role: ProcessRole): Promise<void> {
    const key = recordKey(slot, role);
    this.#records.delete(key);
    await rm(join(this.#directory, `${key}.json`), { force: true });
  }
}

function parse(text: string): ProcessRecord | undefined {
  try {
    return recordSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
