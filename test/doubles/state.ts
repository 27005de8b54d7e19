import type { z } from "zod";
import { modelSpecSchema } from "../../src/api/model.ts";
import { slotGroupSpecSchema } from "../../src/api/slot-group.ts";
import type { Kind } from "../../src/api/names.ts";
import { processKey, type SlotProcess } from "../../src/api/process-ref.ts";
import { completeSlot, slotSpecSchema, type SlotSpecInput } from "../../src/api/slot.ts";
import { lintPorts, lintStatus } from "../../src/api/status-linter.ts";
import { publishedSlotSchema, type Demand, type PublishedRegistry, type PublishedSlot } from "../../src/api/status.ts";
import { canonicalJson, sha256 } from "../../src/lib/canonical.ts";
import { Subscribers } from "../../src/lib/subscribers.ts";
import type { DeclaredSet, DocumentSet } from "../../src/store/document-set.ts";
import type { Clock } from "../../src/operator/queue.ts";
import { PortLeases } from "../../src/operator/ports/leases.ts";
import type { DemandStore, Desired, DesiredSource, Diagnostic, Publisher } from "../../src/store/store.ts";

/** A DOUBLE for the configuration directory: manifests as values. */
export class SourceDouble implements DesiredSource {
  /** Resources by their kind and name, as in `Slot/chat`. */
  readonly #all = new Map<string, Desired<Kind>>();
  readonly #listeners = new Subscribers<[kind: Kind, name: string]>();
  readonly #now: () => Date;
  /** Keys that were asked for, in order. */
  readonly asked: string[] = [];

  constructor(now: () => Date) {
    this.#now = now;
  }

  /** The generation of slots that are saved, where this source is to count. */
  generation: number | undefined;

  /** Saves a manifest; a broken one keeps the last good spec. */
  save(name: string, spec: SlotSpecInput, labels: Readonly<Record<string, string>> = {}): void {
    const complete = completeSlot(name, slotSpecSchema.parse(spec));
    const since = this.#all.get(`Slot/${name}`)?.since ?? this.#now();
    this.#put({ kind: "Slot", spec: complete, ...this.#about("Slot", name, complete), labels, since });
  }

  /** Declares a group with a budget; `uid`: as an object of a cluster. */
  group(name: string, input: z.input<typeof slotGroupSpecSchema> = {}, uid?: string): void {
    const spec = slotGroupSpecSchema.parse(input);
    this.#put({
      kind: "SlotGroup",
      spec,
      ...this.#about("SlotGroup", name, spec),
      ...(uid === undefined ? {} : { uid }),
    });
  }

  /** Declares a model. */
  model(name: string, input: z.input<typeof modelSpecSchema>): void {
    const spec = modelSpecSchema.parse(input);
    this.#put({ kind: "Model", spec, ...this.#about("Model", name, spec) });
  }

  break(name: string): void {
    const about = this.#about("Slot", name, "broken");
    const before = this.#all.get(`Slot/${name}`);
    const place = { file: about.origin.path, line: 3, column: 1 };
    const diagnostics: Diagnostic[] = [{ reason: "InvalidSpec", ...place, message: "unknown key modle" }];
    this.#put({ kind: "Slot", spec: undefined, ...about, ...before, diagnostics });
  }

  /** A manifest of another kind that was never valid. */
  breakOther(kind: "Model" | "Upstream", name: string): void {
    const about = this.#about(kind, name, "");
    const place = { file: about.origin.path, line: 2, column: 1 };
    const diagnostics: Diagnostic[] = [{ reason: "InvalidSpec", ...place, message: "unknown key" }];
    this.#put({ kind, spec: undefined, ...about, diagnostics });
  }

  deleteOther(kind: Kind, name: string): void {
    this.#all.delete(`${kind}/${name}`);
    this.#listeners.notify(kind, name);
  }

  delete(name: string): void {
    this.deleteOther("Slot", name);
  }

  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined {
    this.asked.push(name);
    const found = this.#all.get(`${kind}/${name}`);
    return found !== undefined && isOfKind(found, kind) ? found : undefined;
  }

  list<K extends Kind>(kind: K): readonly Desired<K>[] {
    return [...this.#all.values()].filter((desired) => isOfKind(desired, kind));
  }

  problems(): readonly never[] {
    return [];
  }

  watch(onKey: (kind: Kind, name: string) => void): Disposable {
    return this.#listeners.add(onKey);
  }

  async resync(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}

  #about(kind: Kind, name: string, content: unknown) {
    const folder = kind === "SlotGroup" ? "groups" : `${kind.toLowerCase()}s`;
    return {
      name,
      specHash: sha256(canonicalJson(content)),
      labels: {},
      annotations: {},
      origin: { kind: "file", path: `/config/${folder}/${name}.toml` } as const,
      generation: kind === "Slot" ? this.generation : undefined,
      since: this.#now(),
      diagnostics: [],
    };
  }

  #put(desired: Desired<Kind>): void {
    this.#all.set(`${desired.kind}/${desired.name}`, desired);
    this.#listeners.notify(desired.kind, desired.name);
  }
}

function isOfKind<K extends Kind>(desired: Desired<Kind>, kind: K): desired is Desired<Kind> & Desired<K> {
  return desired.kind === kind;
}

/** A DOUBLE for the state directory, which checks every status behind the one before. It outlives operators. */
export class PublisherDouble implements Publisher {
  place = "/state";
  readonly slots = new Map<string, PublishedSlot>();
  readonly problems: string[] = [];
  /** The clock was set back: what moves now moves earlier than what moved before. */
  isClockSetBack = false;
  writes = 0;
  /** Nothing can be written; what is there stays. */
  isFull = false;
  onWrite: (slot: string) => void = () => undefined;

  missingSlots(): readonly string[] {
    return [];
  }

  hasRegistry(): boolean {
    return true;
  }

  async readSlots(): Promise<readonly PublishedSlot[]> {
    return [...this.slots.values()];
  }

  async writeSlot(slot: PublishedSlot): Promise<void> {
    if (this.isFull) throw Object.assign(new Error("told to fail: no space left"), { code: "ENOSPC" });
    this.writes += 1;
    const before = this.slots.get(slot.name);
    const { problems } = this;
    const shape = publishedSlotSchema.safeParse(slot);
    if (!shape.success) problems.push(`${slot.name}: ${shape.error.message}`);
    const found = lintStatus(before?.status, slot.status, slot.generation);
    // A state between the two could not be written: its condition had another status.
    const isNext = slot.revision === (before?.revision ?? 0) + 1;
    const isHere = (problem: string): boolean =>
      (!this.isClockSetBack || !problem.endsWith("lastTransitionTime went back")) &&
      (isNext || !problem.endsWith("lastTransitionTime moved without its status"));
    problems.push(
      ...found.filter(isHere).map((problem) => `${slot.name}: ${problem}\n  ${JSON.stringify(slot.status)}`),
    );
    if (before !== undefined && slot.revision <= before.revision) problems.push(`${slot.name}: revision went back`);
    if (before !== undefined && slot.generation < before.generation)
      problems.push(`${slot.name}: generation went back`);
    this.slots.set(slot.name, structuredClone(slot));
    problems.push(...lintPorts([...this.slots].map(([name, { status }]) => [name, status])));
    this.onWrite(slot.name);
  }

  async deleteSlot(name: string): Promise<void> {
    this.slots.delete(name);
  }

  registry: PublishedRegistry | undefined;

  async writeRegistry(registry: PublishedRegistry): Promise<void> {
    this.registry = registry;
  }

  async writeOperator(): Promise<void> {}
}

const noDemand = { held: 0, inFlight: 0, seenRevision: 0, endpoints: [] };

/** A DOUBLE for one gateway's demand: it publishes a seen `unloading` at once, and the rest within a second. */
export class DemandDouble implements DemandStore {
  readonly slots: Demand["slots"] = {};
  /** Makes the gateway report that it has seen no published revision. */
  isSlow = false;
  /** No gateway lives. */
  isGone = false;
  readonly #publisher: PublisherDouble;
  readonly #due = new Set<string>();
  readonly #listeners = new Subscribers<[slots: readonly string[]]>();

  constructor(publisher: PublisherDouble, clock: Clock) {
    this.#publisher = publisher;
    publisher.onWrite = (slot) => {
      if (this.isSlow) return;
      if (publisher.slots.get(slot)?.status.state === "unloading") this.tell(slot);
      // Like a heartbeat: a slot that was written several times meanwhile is reported once.
      else if (!this.#due.has(slot)) {
        this.#due.add(slot);
        clock.after(1000, () => {
          this.#due.delete(slot);
          this.tell(slot);
        });
      }
    };
  }

  set(slot: string, demand: Partial<Demand["slots"][string]>): void {
    this.slots[slot] = { ...noDemand, ...this.slots[slot], ...demand };
    this.tell(slot);
  }

  /** Its gateway has ended: another, which knows nothing of the slot, has taken its place. */
  forget(slot: string): void {
    delete this.slots[slot];
    this.tell(slot);
  }

  tell(slot: string): void {
    this.#listeners.notify([slot]);
  }

  list(): readonly Demand[] {
    if (this.isGone) return [];
    const slots: Demand["slots"] = {};
    for (const [name, { revision }] of this.#publisher.slots) {
      const base = this.slots[name] ?? noDemand;
      slots[name] = { ...base, seenRevision: this.isSlow ? 0 : revision };
    }
    for (const [name, demand] of Object.entries(this.slots)) slots[name] ??= demand;
    const heartbeat = "2026-01-01T00:00:00.000Z";
    return [{ schema: 1, gateway: "g1", pid: 1, bootId: "boot", heartbeat, incarnation: "g1", beat: 1, slots }];
  }

  watch(onSlots: (slots: readonly string[]) => void): Disposable {
    return this.#listeners.add(onSlots);
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** A DOUBLE for a set of documents of the state. It outlives operators. */
export class SetDouble<T> implements DocumentSet<T> {
  readonly #declared: DeclaredSet<T>;
  readonly #documents = new Map<string, T>();
  readonly #listeners = new Subscribers<[names: readonly string[]]>();

  constructor(declared: DeclaredSet<T>) {
    this.#declared = declared;
  }

  get(name: string): T | undefined {
    return this.#documents.get(name);
  }

  list(): readonly T[] {
    return [...this.#documents.values()];
  }

  only(): T | undefined {
    return this.list()[0];
  }

  async put(value: T): Promise<void> {
    const name = this.#declared.nameOf(value);
    this.#documents.set(name, this.#declared.schema.parse(value));
    this.#listeners.notify([name]);
  }

  async remove(name: string, isSame?: (value: T) => boolean): Promise<void> {
    const value = this.get(name);
    if (value === undefined || isSame?.(value) === false) return;
    this.#documents.delete(name);
    this.#listeners.notify([name]);
  }

  watch(onChange: (names: readonly string[]) => void): Disposable {
    return this.#listeners.add(onChange);
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** The real leases of a host on which only strangers are known to listen. */
export class PortsDouble extends PortLeases {
  /** The ports that were leased, in order; "-": refused. */
  readonly leased: string[] = [];

  /** `strangers`: ports on which somebody else listens, at any time. */
  constructor(first: number, last: number, strangers: ReadonlySet<number>) {
    super(
      { first, last },
      {
        isTakenByStranger: (port) => strangers.has(port),
        listening: () => strangers,
        recorded: async () => [],
      },
    );
  }

  override reserve(process: SlotProcess, port: number): number | undefined {
    const leased = super.reserve(process, port);
    this.leased.push(leased === undefined ? "-" : `${port} ${processKey(process)}`);
    return leased;
  }
}
