import type { KubeObject } from "./object.ts";

/** Identities of deleted objects are never used again; this many are kept to tell late events of theirs. */
const deletedLimit = 2048;

/**
 * The objects of one list by name. Events may come twice, late or out of order: an older version never replaces a newer
 * one, and a deleted object does not come back.
 */
export class ObjectCache {
  readonly #objects = new Map<string, KubeObject>();
  /** Identities, oldest first. */
  readonly #deleted = new Set<string>();

  get(name: string): KubeObject | undefined {
    return this.#objects.get(name);
  }

  values(): readonly KubeObject[] {
    return [...this.#objects.values()];
  }

  names(): readonly string[] {
    return [...this.#objects.keys()];
  }

  /** The objects stay the same ones, and say the same of themselves. */
  replaceValues(replace: (value: KubeObject["value"]) => KubeObject["value"]): void {
    for (const [name, { meta, value }] of this.#objects) this.#objects.set(name, { meta, value: replace(value) });
  }

  /** False: the event says nothing new. */
  put(object: KubeObject): boolean {
    const { name, uid, resourceVersion } = object.meta;
    if (this.#deleted.has(uid)) return false;
    const known = this.#objects.get(name);
    if (known !== undefined && !isNewer(resourceVersion, known.meta.resourceVersion)) return false;
    if (known !== undefined && known.meta.uid !== uid) this.#bury(known.meta.uid);
    this.#objects.set(name, object);
    return true;
  }

  /** False: the event says nothing new, or speaks of an earlier object of that name. */
  delete(name: string, uid: string): boolean {
    this.#bury(uid);
    if (this.#objects.get(name)?.meta.uid !== uid) return false;
    this.#objects.delete(name);
    return true;
  }

  #bury(uid: string): void {
    this.#deleted.add(uid);
    const [oldest] = this.#deleted;
    if (this.#deleted.size > deletedLimit && oldest !== undefined) this.#deleted.delete(oldest);
  }
}

/**
 * Resource versions are decimal numbers of any length, comparable within one kind (KEP-5504). Those of a server that
 * writes something else count as newer when they differ.
 */
export function isNewer(version: string, than: string): boolean {
  if (!/^[1-9]\d*$/.test(version) || !/^[1-9]\d*$/.test(than)) return version !== than;
  return version.length === than.length ? version > than : version.length > than.length;
}
