import { isRecord } from "../lib/record.ts";

export interface ObjectMeta {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Grows with the spec; absent for kinds that do not count. */
  readonly generation: number | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  readonly createdAt: string;
  /** Its deletion was requested; it is gone once it has no finalizer. */
  readonly isDeleted: boolean;
}

/** An object of the API server. `value` is the whole of it, without managedFields, or the part of it that is kept. */
export interface KubeObject {
  readonly meta: ObjectMeta;
  readonly value: Readonly<Record<string, unknown>>;
}

/** Undefined where it is no object with a name and a version. */
export function readObject(value: unknown): KubeObject | undefined {
  if (!isRecord(value) || !isRecord(value["metadata"])) return undefined;
  const { managedFields: _, ...metadata } = value["metadata"];
  const { name, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp, finalizers } = metadata;
  if (typeof name !== "string" || typeof resourceVersion !== "string") return undefined;
  const listed: readonly unknown[] = Array.isArray(finalizers) ? finalizers : [];
  return {
    meta: {
      name,
      uid: typeof uid === "string" ? uid : "",
      resourceVersion,
      generation: typeof generation === "number" ? generation : undefined,
      labels: texts(metadata["labels"]),
      annotations: texts(metadata["annotations"]),
      finalizers: listed.map(String),
      createdAt: typeof creationTimestamp === "string" ? creationTimestamp : "",
      isDeleted: deletionTimestamp !== undefined,
    },
    value: { ...value, metadata },
  };
}

/** The items of a list, as the API server answers; none of any other answer. */
export function itemsOf(list: unknown): readonly unknown[] {
  return isRecord(list) && Array.isArray(list["items"]) ? list["items"] : [];
}

/** The members of a map that are texts. */
export function texts(value: unknown): Readonly<Record<string, string>> {
  if (!isRecord(value)) return {};
  const pairs = Object.entries(value).flatMap(([key, member]) => (typeof member === "string" ? [[key, member]] : []));
  return Object.fromEntries(pairs);
}
