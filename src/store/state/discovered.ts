import { hash } from "node:crypto";
import { mkdirSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { discoveredModelsSchema, type DiscoveredModels } from "../../api/discovered-models.ts";
import { removeLeftovers, writeInKeptDirectory } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import { Serial } from "../../lib/serial.ts";
import { readSmallText, UnfitFile } from "../../lib/small-file.ts";
import { setAside } from "../../lib/aside.ts";

/** Older lists say nothing about a provider's present models. */
const oldMs = 7 * 24 * 3_600_000;
/** An unchanged list is written again after this time, so that it does not expire. */
const againMs = 24 * 3_600_000;
/** A longer name is part of no ref (`modelRefSchema`). */
const nameLimit = 201;
/** Ten thousand names, each of the longest. */
const limitBytes = 4 * 1024 * 1024;

export interface DiscoveredOptions {
  /** A list could not be kept, or not be read again; for the log. */
  readonly onError: (error: unknown) => void;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}

/**
 * `<state>/discovered/`: the lists of providers, one file for each address of each upstream, so that a gateway that
 * starts while a provider is down knows its models all the same. Several gateways write the same files, each whole; the
 * last write holds the newest list.
 */
export class DiscoveredStore implements AsyncDisposable {
  readonly #dir: string;
  readonly #options: DiscoveredOptions;
  readonly #known = new Map<string, DiscoveredModels>();
  readonly #writes = new Serial();

  private constructor(dir: string, options: DiscoveredOptions) {
    this.#dir = dir;
    this.#options = options;
  }

  /** Reads all lists; torn files are set aside, old ones removed. Never rejects: the lists are optional. */
  static async open(stateDir: string, options: DiscoveredOptions): Promise<DiscoveredStore> {
    const dir = join(stateDir, "discovered");
    const store = new DiscoveredStore(dir, options);
    try {
      // Synchronous: usually there are no files, and the start waits for this.
      mkdirSync(dir, { recursive: true });
      const files = readdirSync(dir);
      if (files.some((file) => file.startsWith("."))) await removeLeftovers(dir);
      for (const file of files) if (!file.startsWith(".")) await store.#read(stateDir, file);
    } catch (error) {
      options.onError(error);
    }
    return store;
  }

  /** The provider's names for its models in the last list; empty for an expired list. */
  get(upstream: string, baseUrl: string): readonly string[] {
    const found = this.#known.get(fileOf(upstream, baseUrl));
    return found === undefined || this.#isOld(found) ? [] : found.models;
  }

  /** Written soon; at the end of the process a file is there whole or not at all. */
  keep(upstream: string, baseUrl: string, listed: readonly string[]): void {
    const now = this.#now;
    const file = fileOf(upstream, baseUrl);
    const models = listed.filter((name) => name.length <= nameLimit);
    const known = this.#known.get(file);
    const isSame = known?.models.length === models.length && models.every((name, at) => name === known.models[at]);
    if (isSame && Math.abs(now - Date.parse(known.listedAt)) < againMs) return;
    const listing: DiscoveredModels = { schema: 1, upstream, listedAt: new Date(now).toISOString(), models };
    this.#known.set(file, listing);
    this.#writes
      .run(() => writeInKeptDirectory(join(this.#dir, file), JSON.stringify(listing), { fsync: false, mode: 0o640 }))
      .catch((error: unknown) => {
        // The next list is written again.
        if (this.#known.get(file) === listing) this.#known.delete(file);
        this.#options.onError(error);
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writes.settled();
  }

  async #read(stateDir: string, file: string): Promise<void> {
    const path = join(this.#dir, file);
    try {
      const found = await read(path);
      if (found === undefined) await setAside(stateDir, path, `discovered-${file}`);
      else if (this.#isOld(found)) await rm(path, { force: true });
      else this.#known.set(file, found);
    } catch (error) {
      this.#options.onError(error);
    }
  }

  get #now(): number {
    return this.#options.now?.() ?? Date.now();
  }

  /** Also a list from the future, by a wrong clock. */
  #isOld({ listedAt }: DiscoveredModels): boolean {
    return Math.abs(this.#now - Date.parse(listedAt)) > oldMs;
  }
}

/** An address may hold a secret in its query: it is not part of the name. */
function fileOf(upstream: string, baseUrl: string): string {
  return `${hash("sha256", JSON.stringify([upstream, baseUrl])).slice(0, 32)}.json`;
}

/** Undefined for a file of another form. */
async function read(path: string): Promise<DiscoveredModels | undefined> {
  try {
    return discoveredModelsSchema.safeParse(parseJson(await readSmallText(path, limitBytes))).data;
  } catch (error) {
    if (error instanceof UnfitFile || errorCode(error) === "EISDIR") return undefined;
    throw error;
  }
}
