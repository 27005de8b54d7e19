import type { KubeObject } from "./object.ts";

/** So many deleted objects are kept in mind to tell late events of theirs. */
const deletedLimit = 2048;

/**
 * The objects of one list by name. Events may come twice, late or out of order: an older version never replaces a newer
 * one, and a deleted object comes back only with a version after its deletion: its label was taken off and put back.
 */
export class ObjectCache {
  readonly #objects = new Map<string, KubeObject>();
  /** The version of each deletion by identity, oldest first. */
  readonly #deleted = new Map<string, string>();

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
    const deletedAt = this.#deleted.get(uid);
    if (deletedAt !== undefined && !isNewer(resourceVersion, deletedAt)) return false;
    const known = this.#objects.get(name);
    if (known !== undefined && !isNewer(resourceVersion, known.meta.resourceVersion)) return false;
    if (known !== undefined && known.meta.uid !== uid) this.#bury(known.meta.uid, resourceVersion);
    this.#deleted.delete(uid);
    this.#objects.set(name, object);
    return true;
  }

  /** False: the event says nothing new, or speaks of an earlier object of that name. `version`: of the deletion. */
  delete(name: string, uid: string, version: string): boolean {
    const known = this.#objects.get(name)?.meta;
    // An earlier disappearance: it has come back since.
    if (known?.uid === uid && isOlder(version, known.resourceVersion)) return false;
    this.#bury(uid, version);
    if (known?.uid !== uid) return false;
    this.#objects.delete(name);
    return true;
  }

  /** The newest of these versions and of that one. */
  newest(version: string): string {
    let newest = version;
    for (const { meta } of this.#objects.values())
      if (isOlder(newest, meta.resourceVersion)) newest = meta.resourceVersion;
    return newest;
  }

  /** Nothing that was known counts any more. Returns the names of all objects, also of those that are gone. */
  replace(objects: ReadonlyMap<string, KubeObject>): readonly string[] {
    const names = new Set([...this.#objects.keys(), ...objects.keys()]);
    this.#deleted.clear();
    this.#objects.clear();
    for (const [name, object] of objects) this.#objects.set(name, object);
    return [...names];
  }

  #bury(uid: string, version: string): void {
    this.#deleted.set(uid, version);
    const [oldest] = this.#deleted.keys();
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

/** Whether a version is older than another; both can be compared. */
export function isOlder(version: string, than: string): boolean {
  return isNewer(than, version) && !isNewer(version, than);
}
