import { gunzipSync, gzipSync } from "node:zlib";
import { isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import type { ListWatch } from "../../kubernetes/list-watch.ts";
import { texts, type KubeObject } from "../../kubernetes/object.ts";
import { parseJson } from "../../lib/json.ts";
import { Serial } from "../../lib/serial.ts";
import type { Documents, DocumentsOptions } from "../documents.ts";
import { follow } from "./followed.ts";
import { corePath, managed, selectorOf } from "./names.ts";

export interface MapsOptions {
  readonly client: ApiClient;
  readonly kind: "ConfigMap" | "Secret";
  /** The only object of that kind that may be read; absent: all ConfigMaps of this installation. */
  readonly only?: string;
  readonly onError: (error: unknown) => void;
}

interface Reader {
  readonly object: string;
  /** Reads the object again, and tells what changed. */
  read(): void;
}

const suffix = ".json";
/** Of a document that is kept compressed, as base64. */
const compressedSuffix = ".json.gz";
/** Of all entries of an object, which the API server counts (https://kubernetes.io/docs/concepts/configuration/configmap/). */
const objectBytes = 1024 * 1024;
/** Left free for what other writers add to the object at the same time. */
const marginBytes = 16 * 1024;
/** A few kilobytes must not fill a reader's memory. */
const decompressedLimit = 64 * 1024 * 1024;

/** ConfigMaps or Secrets as sets of JSON documents: a set is the object `berth-SET`, and a document one of its entries. */
export class Maps implements AsyncDisposable {
  readonly #options: MapsOptions;
  readonly #readers = new Set<Reader>();
  readonly #followed: { watch?: ListWatch } = {};

  private constructor(options: MapsOptions) {
    this.#options = options;
  }

  static async open(options: MapsOptions): Promise<Maps> {
    const maps = new Maps(options);
    const { client, only } = options;
    maps.#followed.watch = await follow({
      client,
      path: maps.#collection,
      ...(only === undefined ? { labelSelector: selectorOf(managed) } : { fieldSelector: `metadata.name=${only}` }),
      onError: options.onError,
      onChange: (names) => {
        for (const reader of maps.#readers) if (names.includes(reader.object)) reader.read();
      },
    });
    return maps;
  }

  /** The documents of one set. */
  documents<T>(set: string, options: DocumentsOptions<T>): Promise<Documents<T>> {
    return Promise.resolve(this.#documentsIn(`berth-${set}`, options, new Map()));
  }

  get isConnected(): boolean {
    return this.#followed.watch?.isConnected === true;
  }

  /** The present entries, as texts, by one read of the API server. */
  async fresh(object: string): Promise<Readonly<Record<string, string>>> {
    try {
      const value = await this.#options.client.request("GET", `${this.#collection}/${object}`);
      this.#followed.watch?.note(value);
    } catch (error) {
      if (!isStatus(error, 404)) throw error;
      return {};
    }
    return this.entries(object);
  }

  /** The object exists, with or without entries. */
  has(object: string): boolean {
    return this.#followed.watch?.get(object) !== undefined;
  }

  entries(object: string): Readonly<Record<string, string>> {
    const found = this.#followed.watch?.get(object);
    return found === undefined ? {} : this.#decoded(found);
  }

  /** Sets entries; undefined removes one. Creates the object. With `version`: 409 where the object is another by now. */
  async write(object: string, entries: Readonly<Record<string, string | undefined>>, version?: string): Promise<void> {
    const { client, kind } = this.#options;
    const data = Object.fromEntries(
      Object.entries(entries).map(([name, text]) => [name, text === undefined ? null : this.#encoded(text)]),
    );
    const metadata = version === undefined ? {} : { metadata: { resourceVersion: version } };
    const body = { data, ...metadata };
    const change = async (): Promise<unknown> =>
      await client.request("PATCH", `${this.#collection}/${object}`, { body, contentType: patchTypes.merge });
    let answer: unknown;
    try {
      answer = await change();
    } catch (error) {
      if (!isStatus(error, 404)) throw error;
      const made = { apiVersion: "v1", kind, metadata: { name: object, labels: managed }, data: withoutNull(data) };
      try {
        answer = await client.request("POST", this.#collection, { body: made });
      } catch (failure) {
        // Another writer has made it meanwhile.
        if (!isStatus(failure, 409)) throw failure;
        answer = await change();
      }
    }
    this.#followed.watch?.note(answer);
  }

  watch(object: string, onChange: () => void): Disposable {
    const reader = { object, read: onChange };
    this.#readers.add(reader);
    return { [Symbol.dispose]: () => void this.#readers.delete(reader) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#readers.clear();
    await this.#followed.watch?.[Symbol.asyncDispose]();
  }

  get #collection(): string {
    const { client, kind } = this.#options;
    return corePath(kind === "Secret" ? "secrets" : "configmaps", client.namespace);
  }

  #documentsIn<T>(object: string, options: DocumentsOptions<T>, entries: Map<string, Entry<T>>): Documents<T> {
    const read = (): void => {
      const changed = refreshed(entries, this.entries(object), options.parse);
      if (changed.length > 0) options.onChange(changed);
    };
    refreshed(entries, this.entries(object), options.parse);
    const watch = this.watch(object, read);
    const reads = new Serial();
    let next: Promise<void> | undefined;
    return {
      get: (name) => entries.get(name)?.value,
      *values() {
        for (const [name, { value }] of entries) if (value !== undefined) yield [name, value];
      },
      // Callers share a read that begins after their call: one that is under way may not have what they want to see.
      refresh: () =>
        (next ??= reads.run(async () => {
          next = undefined;
          await this.fresh(object);
        })),
      put: async (name, value) => {
        const text = JSON.stringify(value);
        const isLong = Buffer.byteLength(text) > this.#roomBytes(object, name);
        const compressed = isLong ? gzipSync(text, { level: 1 }).toString("base64") : undefined;
        const kept = { [`${name}${suffix}`]: isLong ? undefined : text, [`${name}${compressedSuffix}`]: compressed };
        await this.write(object, kept);
      },
      delete: async (name, isSame) => {
        if (isSame === undefined) {
          if (entries.has(name)) await this.write(object, removed(name));
          return;
        }
        for (;;) {
          const value = entries.get(name)?.value;
          if (value === undefined || !isSame(value)) return;
          try {
            const version = this.#followed.watch?.get(object)?.meta.resourceVersion;
            return await this.write(object, removed(name), version);
          } catch (error) {
            if (!isStatus(error, 409)) throw error;
            await this.fresh(object);
          }
        }
      },
      [Symbol.asyncDispose]() {
        watch[Symbol.dispose]();
        return Promise.resolve();
      },
    };
  }

  /**
   * The length of the longest plain text that the object takes as this document, beside its other entries. A longer text
   * is compressed, and no other: people read the entries with kubectl.
   */
  #roomBytes(object: string, name: string): number {
    const own = removed(name);
    const others = Object.entries(this.entries(object)).filter(([key]) => !(key in own));
    return others.reduce((room, [, text]) => room - Buffer.byteLength(text), objectBytes - marginBytes);
  }

  #encoded(text: string): string {
    return this.#options.kind === "Secret" ? Buffer.from(text).toString("base64") : text;
  }

  #decoded({ value }: KubeObject): Readonly<Record<string, string>> {
    const data = texts(value["data"]);
    if (this.#options.kind === "ConfigMap") return data;
    return Object.fromEntries(
      Object.entries(data).map(([name, text]) => [name, Buffer.from(text, "base64").toString()]),
    );
  }
}

interface Entry<T> {
  readonly text: string;
  readonly value: T | undefined;
}

/** Brings `entries` up to date, and returns the names that changed or are gone. */
function refreshed<T>(
  entries: Map<string, Entry<T>>,
  present: Readonly<Record<string, string>>,
  parse: DocumentsOptions<T>["parse"],
): readonly string[] {
  const changed: string[] = [];
  for (const [key, text] of Object.entries(present)) {
    const ending = [suffix, compressedSuffix].find((each) => key.endsWith(each));
    if (ending === undefined) continue;
    const name = key.slice(0, -ending.length);
    const known = entries.get(name);
    if (known?.text === text) continue;
    const json = ending === suffix ? text : decompressed(text);
    entries.set(name, { text, value: parse(parseJson(json)) ?? known?.value });
    changed.push(name);
  }
  for (const name of entries.keys()) {
    if (present[`${name}${suffix}`] !== undefined || present[`${name}${compressedSuffix}`] !== undefined) continue;
    entries.delete(name);
    changed.push(name);
  }
  return changed;
}

const removed = (name: string): Readonly<Record<string, undefined>> => ({
  [`${name}${suffix}`]: undefined,
  [`${name}${compressedSuffix}`]: undefined,
});

/** Empty, which is no document, where a person has written something else there. */
function decompressed(text: string): string {
  try {
    return gunzipSync(Buffer.from(text, "base64"), { maxOutputLength: decompressedLimit }).toString();
  } catch {
    return "";
  }
}

function withoutNull(data: Readonly<Record<string, string | null>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(data).flatMap(([name, text]) => (text === null ? [] : [[name, text]])));
}
