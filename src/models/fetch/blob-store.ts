import { link, lstat, mkdir, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { knownPart } from "../../api/known-part.ts";
import type { Leftover } from "../../api/model-task.ts";
import { pulledModelSchema, type PulledFile, type PulledModel } from "../../api/pulled-model.ts";
import { removeLeftovers, syncDirectory, syncFile, temporaryFor, writeFileAtomic } from "../../lib/atomic-file.ts";
import { sha256 as sha256Of } from "../../lib/canonical.ts";
import { errorCode } from "../../lib/error-code.ts";
import { readText } from "../../lib/read-text.ts";
import { readPartial } from "./partial-record.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { parseJson } from "../../lib/json.ts";

/** The directory below the models directory. Its name is hidden, so that a scan for models skips it. */
export const storeDirectory = ".berth";

/** Errors of file systems without hard links: FAT, and some network file systems. */
const noLinks = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EXDEV"]);

const parts = ["blobs", "refs", "models", "partial"] as const;
/** Errors of a models directory that may not be written. */
const readOnly = new Set(["EROFS", "EACCES", "EPERM", "ENOENT"]);

/**
 * The store of fetched files, by content:
 *
 *     blobs/sha256-…          each content once
 *     refs/<ref>.json         the files of a ref: written last, once all of them are complete
 *     models/<ref>/<file>     links to the blobs under the names that engines expect
 *     partial/<source>/       downloads that are not complete
 *     boot                    the boot of the machine in which the store was opened last
 *
 * Only the operator writes here. A process may end at any moment: `leftovers` finds the files that no ref names.
 */
export class BlobStore {
  readonly root: string;
  readonly #models = new Map<string, PulledModel>();
  readonly #subscribers = new Subscribers<[]>();
  /** How many fetches in progress use a content that the store has. */
  readonly #claims = new Map<string, number>();

  private constructor(root: string) {
    this.root = root;
  }

  /** `boot` names this boot of the machine. */
  static async open(modelsDir: string, boot: string): Promise<BlobStore> {
    const store = new BlobStore(join(modelsDir, storeDirectory));
    const refs = join(store.root, "refs");
    try {
      await store.prepare();
      await removeLeftovers(refs);
    } catch (error) {
      // Models in the store can still be served. A fetch prepares the store again, and reports the error.
      if (!readOnly.has(errorCode(error) ?? "")) throw error;
    }
    for (const name of await readdir(refs).catch(() => [])) {
      const model = await store.#read(join(refs, name));
      if (model !== undefined) store.#models.set(model.ref, model);
    }
    await store.#distrust(boot).catch((error: unknown) => {
      if (!readOnly.has(errorCode(error) ?? "")) throw error;
    });
    return store;
  }

  /** Makes the directories that are missing. Rejects with the system's error. */
  async prepare(): Promise<void> {
    await mkdir(dirname(this.root), { recursive: true });
    // One by one: on a read-only disk, Node's recursive mkdir says ENOENT.
    for (const directory of [this.root, ...parts.map((part) => join(this.root, part))])
      await mkdir(directory, { mode: 0o755 }).catch((error: unknown) => {
        if (errorCode(error) !== "EEXIST") throw error;
      });
  }

  /** The directory that holds a source's bytes while they are downloaded. */
  partialDirectory(source: string): string {
    return join(this.root, "partial", sha256Of(source).slice(0, 32));
  }

  blobPath(sha256: string): string {
    return join(this.root, "blobs", `sha256-${sha256}`);
  }

  /** Whether the content is in the store, with the expected size. */
  async hasBlob({ sha256, sizeBytes }: Pick<PulledFile, "sha256" | "sizeBytes">): Promise<boolean> {
    const found = await stat(this.blobPath(sha256)).catch(() => undefined);
    return found?.isFile() === true && found.size === sizeBytes;
  }

  /** Keeps the content until disposed, also if no ref uses it meanwhile. */
  claim(sha256: string): Disposable {
    const claims = this.#claims;
    claims.set(sha256, (claims.get(sha256) ?? 0) + 1);
    return {
      [Symbol.dispose]() {
        const count = claims.get(sha256) ?? 0;
        if (count > 1) claims.set(sha256, count - 1);
        else claims.delete(sha256);
      },
    };
  }

  /** Moves a file with a known digest into the store. */
  async addBlob(path: string, sha256: string): Promise<void> {
    await rename(path, this.blobPath(sha256));
    await syncDirectory(join(this.root, "blobs"));
  }

  /** Calls `onChange` after a ref was installed or removed. */
  watch(onChange: () => void): Disposable {
    return this.#subscribers.add(onChange);
  }

  /** Every ref that was fetched. An unreadable ref is left out, and its blobs are kept. */
  list(): readonly PulledModel[] {
    return [...this.#models.values()];
  }

  find(ref: string): PulledModel | undefined {
    return this.#models.get(ref);
  }

  /** Absolute paths of a ref's files, in order. */
  pathsOf({ ref, files }: Pick<PulledModel, "ref" | "files">): readonly string[] {
    return files.map(({ name }) => join(this.#modelPath(ref), name));
  }

  /**
   * Makes the ref consist of these files, whose contents are blobs already. All of them are
   * installed, or none; `sync` makes them survive a power cut, and takes as long as the disk needs.
   */
  async install(installed: Omit<PulledModel, "isUnsynced">): Promise<void> {
    const model: PulledModel = { ...installed, isUnsynced: true };
    const directory = this.#modelPath(model.ref);
    await mkdir(directory, { recursive: true, mode: 0o755 });
    for (const { name, sha256 } of model.files) await this.#link(this.blobPath(sha256), join(directory, name));
    await syncDirectory(directory);
    await this.#write(model);
    this.#subscribers.notify();
    const names = new Set(model.files.map(({ name }) => name));
    for (const name of await readdir(directory)) if (!names.has(name)) await rm(join(directory, name), { force: true });
  }

  /** Syncs installed files to the disk. Rejects with the first error, once all other refs are synced. */
  async sync(): Promise<void> {
    const failures: unknown[] = [];
    for (const { isUnsynced, ...model } of this.list())
      if (isUnsynced === true) await this.#sync(model).catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw failures[0];
  }

  /**
   * Deletes the ref, and the blobs that no other ref or fetch uses; none while there is a ref that this version cannot
   * read. Returns the number of freed bytes.
   */
  async remove(ref: string): Promise<number> {
    const gone = await this.#withdraw(ref);
    return gone !== undefined && (await this.#isReadable()) ? await this.#removeUnused(gone) : 0;
  }

  /** Whether a ref or a fetch uses that content or directory now. */
  isUsed(path: string): boolean {
    const models = this.list();
    const digests = [...models.flatMap(({ files }) => files.map(({ sha256 }) => sha256)), ...this.#claims.keys()];
    return (
      digests.some((sha256) => this.blobPath(sha256) === path) ||
      models.some(({ ref }) => this.#modelPath(ref) === path)
    );
  }

  /** Contents, directories and partial files that no ref needs, without those of `active` sources. */
  async leftovers(active: ReadonlySet<string>): Promise<readonly Leftover[]> {
    const models = this.list();
    const isReadable = await this.#isReadable();
    const digests = [...models.flatMap(({ files }) => files.map(({ sha256 }) => sha256)), ...this.#claims.keys()];
    const used = new Set(digests.map((sha256) => this.blobPath(sha256)));
    const known = new Set(models.map(({ ref }) => this.#modelPath(ref)));
    const busy = new Set([...active].map((source) => this.partialDirectory(source)));
    for (const directory of busy) {
      const digest = (await readPartial(directory))?.digest;
      if (digest !== undefined) used.add(this.blobPath(digest));
    }
    const entries = async (part: string): Promise<string[]> =>
      (await readdir(join(this.root, part))).map((name) => join(this.root, part, name));
    const found: Leftover[] = [];
    if (isReadable) {
      for (const path of await entries("blobs")) {
        if (!used.has(path)) found.push({ path, kind: "blob", sizeBytes: (await lstat(path)).size });
      }
      for (const path of await entries("models"))
        if (!known.has(path)) found.push({ path, kind: "directory", sizeBytes: 0 });
    }
    for (const path of await entries("partial")) {
      if (busy.has(path)) continue;
      const data = await stat(join(path, "data")).catch(() => undefined);
      // A partial file is sparse: its length is more than the space that it uses.
      found.push({ path, kind: "partial", sizeBytes: (data?.blocks ?? 0) * 512 });
    }
    return found;
  }

  /** A ref that this version cannot read may need any of the blobs. */
  async #isReadable(): Promise<boolean> {
    const refs = await readdir(join(this.root, "refs"));
    return this.#models.size === refs.filter((name) => !name.startsWith(".")).length;
  }

  /** Deletes the ref, and the links to its files. Returns what it was. */
  async #withdraw(ref: string): Promise<PulledModel | undefined> {
    const gone = this.find(ref);
    this.#models.delete(ref);
    await rm(this.#refPath(ref), { force: true });
    await rm(this.#modelPath(ref), { recursive: true, force: true });
    this.#subscribers.notify();
    return gone;
  }

  /** Returns the number of freed bytes. */
  async #removeUnused({ files }: PulledModel): Promise<number> {
    let freedBytes = 0;
    for (const [sha256, sizeBytes] of new Map(files.map((file) => [file.sha256, file.sizeBytes]))) {
      const path = this.blobPath(sha256);
      // A ref may have been installed, or a fetch begun, while another content was deleted.
      if (this.isUsed(path)) continue;
      await rm(path, { force: true });
      freedBytes += sizeBytes;
    }
    return freedBytes;
  }

  async #sync(model: Omit<PulledModel, "isUnsynced">): Promise<void> {
    for (const { sha256 } of model.files) await syncFile(this.blobPath(sha256));
    // The ref may have been removed meanwhile, or fetched again.
    if (this.find(model.ref)?.pulledAt === model.pulledAt) await this.#write(model);
  }

  async #write(model: PulledModel): Promise<void> {
    await writeFileAtomic(this.#refPath(model.ref), JSON.stringify(model), { fsync: true });
    this.#models.set(model.ref, model);
  }

  /** After a reboot, files that were not synced may have lost any part of their content. */
  async #distrust(boot: string): Promise<void> {
    const path = join(this.root, "boot");
    // A record that cannot be read says nothing: no content is deleted for it.
    if ((await readText(path)) === boot) return;
    for (const { ref, isUnsynced } of this.list()) {
      const gone = isUnsynced === true ? await this.#withdraw(ref) : undefined;
      // Also where another ref may need the content: its size alone would make it trusted.
      if (gone !== undefined) await this.#removeUnused(gone);
    }
    for (const { path: blob, kind } of await this.leftovers(new Set()))
      if (kind === "blob") await rm(blob, { force: true });
    await writeFileAtomic(path, boot, { fsync: true });
  }

  async #read(path: string): Promise<PulledModel | undefined> {
    if (!path.endsWith(".json")) return undefined;
    const text = await readFile(path, "utf8").catch(() => undefined);
    const found = text === undefined ? undefined : knownPart(pulledModelSchema, parseJson(text));
    // The file name must match the ref: a copy under another name would be installed over the first file.
    return found !== undefined && this.#refPath(found.ref) === path ? found : undefined;
  }

  async #link(blob: string, path: string): Promise<void> {
    const temporary = temporaryFor(path);
    try {
      await link(blob, temporary);
    } catch (error) {
      if (!noLinks.has(errorCode(error) ?? "")) throw error;
      await symlink(relative(join(path, ".."), blob), temporary);
    }
    // If both names link to one file, rename(2) does nothing, and the temporary name would stay.
    await rename(temporary, path);
    await rm(temporary, { force: true });
  }

  #refPath(ref: string): string {
    return join(this.root, "refs", `${slugOf(ref)}.json`);
  }

  #modelPath(ref: string): string {
    return join(this.root, "models", slugOf(ref));
  }
}

/** A file name from which people recognise the ref, and which no two refs share. */
function slugOf(ref: string): string {
  return `${ref.replaceAll(/[^A-Za-z0-9._-]/g, "-").slice(0, 80)}-${sha256Of(ref).slice(0, 12)}`;
}
