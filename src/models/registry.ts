import { watch, type FSWatcher } from "node:fs";
import { mkdir } from "node:fs/promises";
import type { ModelRecord, ModelSpec } from "../api/model.ts";
import { modelRefSchema } from "../api/names.ts";
import { Subscribers } from "../lib/subscribers.ts";
import { FactCache, stampOf } from "./facts.ts";
import { Listing, modelFiles, projectorBeside } from "./model-files.ts";
import { declaredPaths, declaredRecord, fileRecord } from "./record.ts";

export interface DeclaredModel {
  readonly name: string;
  readonly spec: ModelSpec;
  readonly since: Date;
}

/** What can be served from this machine's disk: files found, and models that people declared. */
export interface ModelRegistry extends AsyncDisposable {
  /** One record per ref, declared ones first. Never throws on a bad file: that is the record's state. */
  records(declared: readonly DeclaredModel[]): Promise<readonly ModelRecord[]>;
  /** Hints that files came, went or changed, also those that the last `records` was told of. */
  watch(onChange: () => void): Disposable;
}

/** A file that grows by many writes is told of once in this time. */
const gatherMs = 100;

/** Follows `modelsDir`, which is made when it is not there. A change whose event is lost is found by a sweep. */
export async function openRegistry(options: { modelsDir: string; sweepMs?: number }): Promise<ModelRegistry> {
  await mkdir(options.modelsDir, { recursive: true });
  return new FileRegistry(options.modelsDir, options.sweepMs ?? 5000);
}

class FileRegistry implements ModelRegistry {
  readonly #modelsDir: string;
  readonly #listing: Listing;
  readonly #cache = new FactCache();
  readonly #subscribers = new Subscribers<[]>();
  readonly #sweeper: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #gathering: NodeJS.Timeout | undefined;
  /** Files outside the models directory that Models name. */
  #elsewhere: readonly string[] = [];
  /** What the last `records`, or the sweep after it, has seen. */
  #lastLook: string | undefined;
  #isSweeping = false;

  constructor(modelsDir: string, sweepMs: number) {
    this.#modelsDir = modelsDir;
    this.#listing = new Listing(modelsDir);
    this.#follow();
    this.#sweeper = setInterval(() => void this.#sweep(), sweepMs);
    this.#sweeper.unref();
  }

  watch(onChange: () => void): Disposable {
    return this.#subscribers.add(onChange);
  }

  async records(declared: readonly DeclaredModel[]): Promise<readonly ModelRecord[]> {
    const files = await this.#listing.read();
    this.#elsewhere = declared.flatMap(({ spec }) => declaredPaths(spec));
    const known = [...files, ...this.#elsewhere];
    // Before the files are read: what changes from here on is news to the next sweep.
    this.#lastLook = await lookAt(known);
    this.#cache.keep(new Set(known));
    const records = new Map<string, ModelRecord>();
    for (const model of declared) {
      const ref = model.spec.ref ?? model.name;
      if (!records.has(ref)) records.set(ref, await declaredRecord(this.#cache, model, files));
    }
    // A file that a Model names is that model, not one more.
    const claimed = new Set([...records.values()].flatMap((record) => record.files));
    for (const found of modelFiles(files)) {
      const [first = ""] = found.paths;
      const isTaken = records.has(found.ref) || found.paths.some((path) => claimed.has(path));
      if (isTaken || !modelRefSchema.safeParse(found.ref).success) continue;
      records.set(found.ref, await fileRecord(this.#cache, found, projectorBeside(first, files)));
    }
    return [...records.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscribers.clear();
    this.#watcher?.close();
    clearInterval(this.#sweeper);
    clearTimeout(this.#gathering);
  }

  #follow(): void {
    try {
      this.#watcher = watch(this.#modelsDir, { recursive: true, persistent: false }, () => this.#gather());
      this.#watcher.on("error", () => {
        // Without a watcher the sweep alone finds changes.
        this.#watcher?.close();
        this.#watcher = undefined;
      });
    } catch {
      this.#watcher = undefined;
    }
  }

  #gather(): void {
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      this.#tell();
    }, gatherMs).unref();
  }

  #tell(): void {
    this.#subscribers.tell();
  }

  async #sweep(): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    try {
      const before = this.#lastLook;
      const look = await lookAt([...(await this.#listing.read()), ...this.#elsewhere]);
      // Nobody has asked yet, or somebody did meanwhile and knows more than this.
      if (before === undefined || this.#lastLook !== before || look === before) return;
      this.#lastLook = look;
      this.#tell();
    } finally {
      this.#isSweeping = false;
    }
  }
}

/** One text that differs when one of the files does. */
async function lookAt(files: readonly string[]): Promise<string> {
  const stamps = await Promise.all(
    files.map(async (file) => {
      const stamp = await stampOf(file).catch(() => undefined);
      return `${file} ${stamp?.text ?? "-"}`;
    }),
  );
  return stamps.join("\n");
}
