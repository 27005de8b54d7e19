import { resourceKey } from "../../api/resource-status.ts";
import { isDeepStrictEqual } from "node:util";
import { apiVersion, kinds, slotNameSchema, type Kind } from "../../api/names.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import type { ListWatch } from "../../kubernetes/list-watch.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { judgeSpec, notASlotName } from "../judged-spec.ts";
import { describeOrigin, type Origin } from "../origin.ts";
import type { Desired, DesiredSource, Diagnostic, SpecByKind } from "../store.ts";
import { follow } from "./followed.ts";
import { collectionOf, objectName } from "./names.ts";
import { withoutState } from "./slot-record.ts";

export interface SourceOptions {
  readonly client: ApiClient;
  /**
   * The spec that an earlier operator had in force of this very object, with its hash: it stays where a newer one is
   * broken. Absent: there is none.
   */
  readonly before?: (kind: Kind, object: KubeObject) => Before | undefined;
  readonly onError: (error: unknown) => void;
}

export interface Before {
  readonly spec: SpecByKind[Kind];
  readonly specHash: string;
}

/** The custom resources of one namespace. An object whose deletion was requested is removed for the operator. */
export class ObjectSource implements DesiredSource {
  readonly #options: SourceOptions;
  readonly #watches = new Map<Kind, ListWatch>();
  readonly #held = new Map<string, Desired<Kind>>();
  readonly #subscribers = new Subscribers<[kind: Kind, name: string]>();
  #keepsStates = true;

  private constructor(options: SourceOptions) {
    this.#options = options;
  }

  /** `onSlots`: also called for slots whose deletion or status changed, which changes nothing that is desired. */
  static async open(options: SourceOptions, onSlots: (names: readonly string[]) => void): Promise<ObjectSource> {
    const source = new ObjectSource(options);
    const { client, onError } = options;
    try {
      for (const kind of kinds)
        source.#watches.set(
          kind,
          await follow({
            client,
            path: collectionOf(kind, client.namespace),
            onError,
            keep: (value) => (kind === "Slot" && !source.#keepsStates ? withoutState(value) : value),
            onChange: (names) => {
              for (const name of names) source.#read(kind, name);
              if (kind === "Slot") onSlots(names);
            },
          }),
        );
    } catch (error) {
      await source[Symbol.asyncDispose]();
      throw error;
    }
    for (const kind of kinds)
      for (const { meta } of source.#watches.get(kind)?.values() ?? []) source.#read(kind, meta.name);
    return source;
  }

  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined {
    const found = this.#held.get(resourceKey({ kind, name }));
    return found === undefined || !isOfKind(found, kind) ? undefined : found;
  }

  list<K extends Kind>(kind: K): readonly Desired<K>[] {
    const found = [...this.#held.values()].filter((desired) => isOfKind(desired, kind));
    return found.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  problems(): readonly [] {
    return [];
  }

  watch(onKey: (kind: Kind, name: string) => void): Disposable {
    return this.#subscribers.add(onKey);
  }

  /** Lists only what no watch follows: without faults the operator's periodic resync costs the API server nothing. */
  async resync(): Promise<void> {
    await Promise.all([...this.#watches.values()].map((watch) => watch.refresh()));
  }

  /** What an earlier operator published has been read: from now on no state of a Slot is kept here. */
  forgetStates(): void {
    this.#keepsStates = false;
    this.#watches.get("Slot")?.shrink();
  }

  /** Also one whose deletion was requested. */
  object(kind: Kind, name: string): KubeObject | undefined {
    return this.#watches.get(kind)?.get(name);
  }

  objects(kind: Kind): readonly KubeObject[] {
    return this.#watches.get(kind)?.values() ?? [];
  }

  /** Every collection is followed at this moment: what is not here does not exist. */
  get isCurrent(): boolean {
    return [...this.#watches.values()].every((watch) => watch.isConnected);
  }

  /** What this process wrote, as the API server answered. */
  note(kind: Kind, value: unknown): void {
    this.#watches.get(kind)?.note(value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscribers.clear();
    await Promise.all([...this.#watches.values()].map((watch) => watch[Symbol.asyncDispose]()));
  }

  #read(kind: Kind, name: string): void {
    const object = this.#watches.get(kind)?.get(name);
    const key = resourceKey({ kind, name });
    const held = this.#held.get(key);
    // An object of the same name that was made since has nothing in common with it.
    const known = held?.uid === object?.meta.uid ? held : undefined;
    if (object === undefined || object.meta.isDeleted) {
      if (this.#held.delete(key)) this.#subscribers.notify(kind, name);
      return;
    }
    const next = this.#desired(kind, object, known);
    if (known !== undefined && isSame(known, next)) return;
    this.#held.set(key, next);
    this.#subscribers.notify(kind, name);
  }

  #desired(kind: Kind, object: KubeObject, known: Desired<Kind> | undefined): Desired<Kind> {
    const { meta, value } = object;
    const { name, labels, annotations } = meta;
    const origin: Origin = { kind: "object", name: objectName(kind, name), namespace: this.#options.client.namespace };
    const file = describeOrigin(origin);
    const diagnostics: Diagnostic[] = [];
    const note = (path: Diagnostic["path"], message: string): void =>
      void diagnostics.push({ reason: "InvalidSpec", file, ...(path === undefined ? {} : { path }), message });
    if (value["apiVersion"] !== undefined && value["apiVersion"] !== apiVersion)
      note(["apiVersion"], `must be ${apiVersion}`);
    if (kind === "Slot" && !slotNameSchema.safeParse(name).success) note(["metadata", "name"], notASlotName(name));
    const judged = judgeSpec(kind, name, value["spec"] ?? {});
    for (const { path, message } of judged.problems) note(["spec", ...path], message);
    const isValid = diagnostics.length === 0;
    const before = known ?? this.#options.before?.(kind, object);
    const spec = isValid && judged.isWellFormed ? judged.spec : before?.spec;
    const hash =
      isValid && judged.isWellFormed ? judged.specHash : before?.spec === undefined ? undefined : before.specHash;
    const specHash = hash ?? sha256(canonicalJson(value["spec"]));
    return {
      kind,
      name,
      spec,
      specHash,
      labels,
      annotations,
      origin,
      generation: meta.generation,
      uid: meta.uid,
      since: sinceOf(known, specHash, meta.createdAt),
      diagnostics,
    };
  }
}

function isOfKind<K extends Kind>(desired: Desired<Kind>, kind: K): desired is Desired<K> {
  return desired.kind === kind;
}

/** The generation also counts where an invalid spec takes the place of another: its status must name it. */
function isSame(before: Desired<Kind>, after: Desired<Kind>): boolean {
  return (
    before.specHash === after.specHash &&
    before.generation === after.generation &&
    before.uid === after.uid &&
    isDeepStrictEqual(before.labels, after.labels) &&
    isDeepStrictEqual(before.annotations, after.annotations) &&
    isDeepStrictEqual(before.diagnostics, after.diagnostics)
  );
}

/** An object that this operator meets for the first time is as old as the API server says: the incumbent is the older. */
function sinceOf(known: Desired<Kind> | undefined, specHash: string, createdAt: string): Date {
  if (known !== undefined) return known.specHash === specHash ? known.since : new Date();
  const created = new Date(createdAt);
  return Number.isNaN(created.getTime()) ? new Date() : created;
}
