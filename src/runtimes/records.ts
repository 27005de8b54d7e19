import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { processRoles, slotNameSchema, type ProcessRole } from "../api/names.ts";
import { exitSchema } from "../api/workload.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";

/** What is remembered of an engine process beyond the life of an operator. */
export const recordSchema = z.strictObject({
  schema: z.literal(1),
  instance: z.string(),
  slot: slotNameSchema,
  role: z.enum(processRoles),
  hash: z.string(),
  port: z.int(),
  bootId: z.string(),
  pidNamespace: z.string(),
  pid: z.int(),
  startTime: z.string(),
  startedAt: z.iso.datetime(),
  exit: exitSchema.optional(),
});
export type ProcessRecord = z.infer<typeof recordSchema>;

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
