import { constants } from "node:fs";
import { lstat, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { knownPart } from "../../api/known-part.ts";
import { processName, type SlotProcess } from "../../api/process-ref.ts";
import {
  savedContextsSchema,
  type SavedContext,
  type SavedContexts,
  type SavedPlace,
} from "../../api/saved-context.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import { Serial } from "../../lib/serial.ts";
import { openToContainer, openToUser, type FileOwner } from "./context-directory.ts";

/** The engine of a process, by the facts of its start. */
export type RunningEngine = NonNullable<SavedContexts["running"]>;

/** The limits of one process. */
export interface ContextLimits {
  readonly maxBytes: number;
  readonly maxAgeSeconds: number;
}

/** A time further ahead of the clock than this is from before the clock was set back. */
const aheadMs = 10_000;

/**
 * `<state>/contexts/SLOT/`: for each process a directory, which its engine alone may read and write, and beside it the
 * record of the files that are whole. A file without a record is rubbish. Nothing is shared between slots or replicas.
 *
 * A container's user may be any user of this machine: by the image, by a user namespace. Its directory is open, and
 * mounted into that container alone; the directory above it is closed to all others.
 */
export class ContextFiles {
  readonly directory: string;
  readonly #boot: string;
  readonly #owner: () => Promise<FileOwner | undefined>;
  readonly #writes = new Serial();

  /** `owner`: of engines, where it is not the user of this process. */
  constructor(stateDir: string, boot: string, owner: () => Promise<FileOwner | undefined>) {
    this.directory = join(stateDir, "contexts");
    this.#boot = boot;
    this.#owner = owner;
  }

  /**
   * Makes the directory of a process that is about to start, and records what it will save. Contexts of the same model
   * with other settings, or of another version of the engine, are deleted. Rejects where the engine could not write.
   */
  async begin(process: SlotProcess, running: RunningEngine): Promise<void> {
    const directory = this.#directoryOf(process);
    const owner = await this.#owner();
    await (running.isContainer ? openToContainer(directory, owner) : openToUser(directory, owner));
    await this.#update(process, ({ saved }) => ({
      running,
      saved: saved.filter(({ key, ref }) => key === running.key || ref !== running.ref),
    }));
  }

  /** The process was started without a place to save to: what it had is of no use. */
  async end(process: SlotProcess): Promise<void> {
    await this.#writes.run(async () => {
      await rm(this.#recordOf(process), { force: true });
      await rm(this.#directoryOf(process), { recursive: true, force: true });
    });
  }

  /** The engine of that hash, if it was started with a place to save to. */
  async running(process: SlotProcess, hash: string): Promise<RunningEngine | undefined> {
    const { running } = await this.#read(process);
    return running?.hash === hash ? running : undefined;
  }

  /** The bytes that the other contexts of the process take. */
  async bytes(process: SlotProcess): Promise<number> {
    return sum((await this.#read(process)).saved);
  }

  /** Takes the context for that key out of the record: it is used at most once, whatever becomes of its reader. */
  async take(process: SlotProcess, key: string): Promise<SavedContext | undefined> {
    let found: SavedContext | undefined;
    await this.#update(
      process,
      ({ saved, ...rest }) => {
        found = saved.find((each) => each.key === key);
        return { ...rest, saved: saved.filter((each) => each.key !== key) };
      },
      false,
    );
    return found;
  }

  /** Records a context, and deletes the oldest others beyond the limits. False: alone it is beyond them. */
  async put(process: SlotProcess, context: SavedContext, limits: ContextLimits, now: Date): Promise<boolean> {
    let isKept = false;
    await this.#update(process, ({ saved, ...rest }) => {
      const others = saved.filter(({ key }) => key !== context.key);
      const kept = within([...others, context], limits, now);
      isKept = kept.includes(context);
      return { ...rest, saved: kept };
    });
    return isKept;
  }

  /** Deletes what is beyond the limits, and files without a record. */
  async trim(process: SlotProcess, limits: ContextLimits, now: Date): Promise<void> {
    await this.#update(process, ({ saved, ...rest }) => ({ ...rest, saved: within(saved, limits, now) }));
  }

  /** The file as the engine left it, closed to others; undefined where it is not what the engine says. */
  async seal(
    process: SlotProcess,
    file: string,
    bytes: number,
  ): Promise<Pick<SavedPlace, "inode" | "modifiedMs"> | undefined> {
    const { running } = await this.#read(process);
    if (running?.isContainer === true) {
      // Any user's, who may have closed it to this process: the directory above keeps others out.
      const found = await this.#check(process, file);
      return found?.size === bytes ? { inode: found.ino, modifiedMs: found.mtimeMs } : undefined;
    }
    // The engine's user owns the directory: a link there must lead this process, which may be root, nowhere.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const opened = await open(join(this.#directoryOf(process), file), flags).catch(() => undefined);
    if (opened === undefined) return undefined;
    await using handle = opened;
    const found = await handle.stat();
    const uid = (await this.#owner())?.uid ?? userOfThisProcess();
    if (!found.isFile() || found.size !== bytes || found.uid !== uid) return undefined;
    await handle.chmod(0o600);
    return { inode: found.ino, modifiedMs: found.mtimeMs };
  }

  /** Whether the file is the recorded file, unchanged. */
  async isWhole(process: SlotProcess, { file, bytes, inode, modifiedMs }: SavedPlace): Promise<boolean> {
    const found = await this.#check(process, file);
    return found?.size === bytes && found.ino === inode && found.mtimeMs === modifiedMs;
  }

  async remove(process: SlotProcess, file: string): Promise<void> {
    await rm(join(this.#directoryOf(process), file), { force: true });
  }

  /** Deletes everything of the slot. */
  async forget(slot: string): Promise<void> {
    await this.#writes.run(() => rm(join(this.directory, slot), { recursive: true, force: true }));
  }

  /** The slots that have a directory, and the names of their processes. */
  async list(): Promise<ReadonlyMap<string, readonly string[]>> {
    const found = new Map<string, readonly string[]>();
    for (const slot of await namesIn(this.directory)) {
      const names = await namesIn(join(this.directory, slot));
      found.set(slot, [...new Set(names.map((name) => name.replace(/\.json$/, "")))]);
    }
    return found;
  }

  /** Changes the record, then deletes the files that it no longer names; a missing file is taken out of it. */
  async #update(
    process: SlotProcess,
    change: (record: Pick<SavedContexts, "running" | "saved">) => Pick<SavedContexts, "running" | "saved">,
    deletesOthers = true,
  ): Promise<void> {
    await this.#writes.run(async () => {
      const { running, saved } = await this.#read(process);
      const next = change({ ...(running === undefined ? {} : { running }), saved });
      const record: SavedContexts = { schema: 1, boot: this.#boot, ...next };
      await writeFileAtomic(this.#recordOf(process), `${JSON.stringify(record)}\n`, { fsync: false, mode: 0o600 });
      if (!deletesOthers) return;
      const known = new Set(record.saved.flatMap(({ places }) => places.map(({ file }) => file)));
      for (const name of await namesIn(this.#directoryOf(process)))
        if (!known.has(name)) await rm(join(this.#directoryOf(process), name), { recursive: true, force: true });
    });
  }

  /**
   * Empty for no record, one that makes no sense, and one from before the machine was restarted. Rejects where it cannot
   * be read now: files that it names would be deleted as rubbish.
   */
  async #read(process: SlotProcess): Promise<Pick<SavedContexts, "running" | "saved">> {
    const text = await readFile(this.#recordOf(process), "utf8").catch((error: unknown) => {
      if (errorCode(error) === "ENOENT") return "";
      throw error;
    });
    const found = knownPart(savedContextsSchema, parseJson(text));
    return found?.boot === this.#boot ? found : { saved: [] };
  }

  async #check(
    process: SlotProcess,
    file: string,
  ): Promise<{ size: number; ino: number; mtimeMs: number } | undefined> {
    const found = await lstat(join(this.#directoryOf(process), file)).catch(() => undefined);
    return found?.isFile() === true ? found : undefined;
  }

  #directoryOf(process: SlotProcess): string {
    return join(this.directory, process.slot, processName(process));
  }

  #recordOf(process: SlotProcess): string {
    return `${this.#directoryOf(process)}.json`;
  }
}

/** Neither too old nor, the newest first, too large together. */
function within(saved: readonly SavedContext[], { maxBytes, maxAgeSeconds }: ContextLimits, now: Date): SavedContext[] {
  let left = maxBytes;
  return saved
    .filter(({ savedAt }) => {
      const ageMs = now.getTime() - Date.parse(savedAt);
      return ageMs <= maxAgeSeconds * 1000 && ageMs > -aheadMs;
    })
    .toSorted((one, other) => Date.parse(other.savedAt) - Date.parse(one.savedAt))
    .filter((context) => {
      const bytes = sum([context]);
      const fits = bytes <= left;
      if (fits) left -= bytes;
      return fits;
    });
}

function sum(saved: readonly SavedContext[]): number {
  return saved.reduce((all, { places }) => all + places.reduce((bytes, place) => bytes + place.bytes, 0), 0);
}

function userOfThisProcess(): number {
  return process.geteuid?.() ?? -1;
}

async function namesIn(directory: string): Promise<readonly string[]> {
  return await readdir(directory).catch(() => []);
}
