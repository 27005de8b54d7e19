import type { z } from "zod";
import {
  groupLoanSchema,
  publishedGroupsSchema,
  type GroupLoan,
  type GroupStatus,
} from "../../src/api/group-status.ts";
import type { GroupStore } from "../../src/store/state/groups.ts";
import { modelSpecSchema } from "../../src/api/model.ts";
import { slotGroupSpecSchema } from "../../src/api/slot-group.ts";
import type { Kind } from "../../src/api/names.ts";
import { processKey, type ProcessRef, type SlotProcess } from "../../src/api/process-ref.ts";
import { completeSlot, slotSpecSchema, type SlotSpecInput } from "../../src/api/slot.ts";
import { lintPorts, lintStatus } from "../../src/api/status-linter.ts";
import {
  publishedSlotSchema,
  type Demand,
  type PublishedRegistry,
  type PublishedSlot,
  type SlotRequest,
} from "../../src/api/status.ts";
import { canonicalJson, sha256 } from "../../src/lib/canonical.ts";
import type { Clock } from "../../src/operator/queue.ts";
import type { PortLeases } from "../../src/operator/dependencies.ts";
import type {
  DemandStore,
  Desired,
  DesiredSource,
  Diagnostic,
  Publisher,
  RequestStore,
} from "../../src/store/store.ts";

/** A DOUBLE for the configuration directory: manifests as values. */
export class SourceDouble implements DesiredSource {
  readonly #slots = new Map<string, Desired<"Slot">>();
  readonly #others = new Map<string, Desired<"Model" | "Upstream" | "SlotGroup">>();
  readonly #listeners = new Set<(kind: Kind, name: string) => void>();
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
    this.#slots.set(name, {
      kind: "Slot",
      name,
      spec: complete,
      specHash: sha256(canonicalJson(complete)),
      labels,
      annotations: {},
      origin: { kind: "file", path: `/config/slots/${name}.toml` },
      generation: this.generation,
      since: this.#slots.get(name)?.since ?? this.#now(),
      diagnostics: [],
    });
    this.#tell(name);
  }

  /** Declares a group with a budget; `uid`: as an object of a cluster. */
  group(name: string, spec: z.input<typeof slotGroupSpecSchema> = {}, uid?: string): void {
    const parsed = slotGroupSpecSchema.parse(spec);
    const origin = { kind: "file", path: `/config/groups/${name}.toml` } as const;
    const place = { name, origin, generation: undefined, specHash: sha256(canonicalJson(parsed)) };
    const rest = {
      labels: {},
      annotations: {},
      since: this.#now(),
      diagnostics: [],
      ...(uid === undefined ? {} : { uid }),
    };
    this.#others.set(`SlotGroup/${name}`, { kind: "SlotGroup", ...place, ...rest, spec: parsed });
    this.#tell(name, "SlotGroup");
  }

  /** Declares a model. */
  model(name: string, spec: z.input<typeof modelSpecSchema>): void {
    const parsed = modelSpecSchema.parse(spec);
    const origin = { kind: "file", path: `/config/models/${name}.toml` } as const;
    const place = { name, origin, generation: undefined, specHash: sha256(canonicalJson(parsed)) };
    const rest = { labels: {}, annotations: {}, since: this.#now(), diagnostics: [] };
    this.#others.set(`Model/${name}`, { kind: "Model", ...place, ...rest, spec: parsed });
    this.#tell(name, "Model");
  }

  break(name: string): void {
    const file = `/config/slots/${name}.toml`;
    const diagnostic: Diagnostic = { reason: "InvalidSpec", file, line: 3, column: 1, message: "unknown key modle" };
    const before = this.#slots.get(name);
    this.#slots.set(name, {
      kind: "Slot",
      name,
      spec: undefined,
      specHash: sha256("broken"),
      labels: {},
      annotations: {},
      origin: { kind: "file", path: file },
      generation: undefined,
      since: this.#now(),
      ...before,
      diagnostics: [diagnostic],
    });
    this.#tell(name);
  }

  /** A manifest of another kind that was never valid. */
  breakOther(kind: "Model" | "Upstream", name: string): void {
    const file = `/config/${kind.toLowerCase()}s/${name}.toml`;
    const diagnostics: Diagnostic[] = [{ reason: "InvalidSpec", file, line: 2, column: 1, message: "unknown key" }];
    const nothing = { spec: undefined, specHash: sha256(""), labels: {}, annotations: {}, since: this.#now() };
    const origin = { kind: "file", path: file } as const;
    this.#others.set(`${kind}/${name}`, { kind, name, origin, generation: undefined, ...nothing, diagnostics });
    this.#tell(name, kind);
  }

  deleteOther(kind: "Model" | "Upstream" | "SlotGroup", name: string): void {
    this.#others.delete(`${kind}/${name}`);
    this.#tell(name, kind);
  }

  delete(name: string): void {
    this.#slots.delete(name);
    this.#tell(name);
  }

  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined {
    this.asked.push(name);
    const found = kind === "Slot" ? this.#slots.get(name) : this.#others.get(`${kind}/${name}`);
    return found !== undefined && isOfKind(found, kind) ? found : undefined;
  }

  list<K extends Kind>(kind: K): readonly Desired<K>[] {
    return [...this.#slots.values(), ...this.#others.values()].filter((desired) => isOfKind(desired, kind));
  }

  problems(): readonly never[] {
    return [];
  }

  watch(onKey: (kind: Kind, name: string) => void): Disposable {
    this.#listeners.add(onKey);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onKey) };
  }

  async resync(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}

  #tell(name: string, kind: Kind = "Slot"): void {
    for (const listener of this.#listeners) listener(kind, name);
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
  /** Longer states cannot be written. */
  roomBytes = Infinity;
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
    if (this.isFull || JSON.stringify(slot).length > this.roomBytes)
      throw Object.assign(new Error("told to fail: no space left"), { code: "ENOSPC" });
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

  async hideSlot(name: string): Promise<void> {
    this.slots.delete(name);
  }

  registry: PublishedRegistry | undefined;

  async writeRegistry(registry: PublishedRegistry): Promise<void> {
    this.registry = registry;
  }

  async writeOperator(): Promise<void> {}
}

/** A DOUBLE for one gateway's demand: it publishes a seen `unloading` at once, and the rest within a second. */
export class DemandDouble implements DemandStore {
  readonly slots: Demand["slots"] = {};
  /** Makes the gateway report that it has seen no published revision. */
  isSlow = false;
  /** Its gateway is of a version that knows of bearers. */
  sendsBearers = true;
  /** No gateway lives. */
  isGone = false;
  readonly #publisher: PublisherDouble;
  readonly #due = new Set<string>();
  readonly #listeners = new Set<(slots: readonly string[]) => void>();

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
    this.slots[slot] = { held: 0, inFlight: 0, seenRevision: 0, ...this.slots[slot], ...demand };
    this.tell(slot);
  }

  /** Its gateway has ended: another, which knows nothing of the slot, has taken its place. */
  forget(slot: string): void {
    delete this.slots[slot];
    this.tell(slot);
  }

  tell(slot: string): void {
    for (const listener of this.#listeners) listener([slot]);
  }

  list(): readonly Demand[] {
    if (this.isGone) return [];
    const slots: Demand["slots"] = {};
    for (const [name, { revision }] of this.#publisher.slots) {
      const base = this.slots[name] ?? { held: 0, inFlight: 0, seenRevision: 0 };
      slots[name] = { ...base, seenRevision: this.isSlow ? 0 : revision };
    }
    for (const [name, demand] of Object.entries(this.slots)) slots[name] ??= demand;
    const { sendsBearers } = this;
    const heartbeat = "2026-01-01T00:00:00.000Z";
    return [
      { schema: 1, gateway: "g1", pid: 1, bootId: "boot", heartbeat, slots, ...(sendsBearers ? { sendsBearers } : {}) },
    ];
  }

  watch(onSlots: (slots: readonly string[]) => void): Disposable {
    this.#listeners.add(onSlots);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onSlots) };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** A DOUBLE for the requests in the state directory. */
export class RequestsDouble implements RequestStore {
  readonly #requests = new Map<string, SlotRequest>();
  readonly #listeners = new Set<(slot: string) => void>();

  list(slot: string): readonly SlotRequest[] {
    return [...this.#requests.values()].filter((request) => request.slot === slot);
  }

  async put(request: SlotRequest): Promise<void> {
    this.#requests.set(`${request.slot}.${request.kind}`, request);
    for (const listener of this.#listeners) listener(request.slot);
  }

  async remove(slot: string, kind: SlotRequest["kind"], token?: string): Promise<void> {
    if (token !== undefined && this.#requests.get(`${slot}.${kind}`)?.token !== token) return;
    this.#requests.delete(`${slot}.${kind}`);
    for (const listener of this.#listeners) listener(slot);
  }

  watch(onSlot: (slot: string) => void): Disposable {
    this.#listeners.add(onSlot);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onSlot) };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** A DOUBLE for port leases, over a range of which only strangers are known to listen. */
export class PortsDouble implements PortLeases {
  /** The ports that were leased, in order; "-": refused. */
  readonly leased: string[] = [];
  readonly #held = new Map<number, string>();
  readonly #first: number;
  readonly #last: number;
  readonly #strangers: ReadonlySet<number>;

  /** `strangers`: ports on which somebody else listens, at any time. */
  constructor(first: number, last: number, strangers: ReadonlySet<number>) {
    this.#first = first;
    this.#last = last;
    this.#strangers = strangers;
  }

  find(process: SlotProcess, avoid: ReadonlySet<number>): number | undefined {
    const owner = processKey(process);
    const own = this.#heldBy(owner);
    if (own !== undefined && !this.#strangers.has(own)) return own;
    const free = (port: number): boolean => !this.#held.has(port) && !this.#strangers.has(port) && !avoid.has(port);
    for (let port = this.#first; port <= this.#last; port += 1) if (free(port)) return port;
    return undefined;
  }

  reserve(process: SlotProcess, port: number): number | undefined {
    const owner = processKey(process);
    const isTaken = this.holder(port) !== undefined && this.holder(port) !== owner;
    this.leased.push(isTaken ? "-" : `${port} ${owner}`);
    if (isTaken) return undefined;
    const own = this.#heldBy(owner);
    if (own !== undefined) this.#held.delete(own);
    this.#held.set(port, owner);
    return port;
  }

  #heldBy(owner: string): number | undefined {
    return [...this.#held].find(([, holder]) => holder === owner)?.[0];
  }

  holder(port: number): string | undefined {
    return this.#held.get(port);
  }

  release(slot: string, process?: ProcessRef): void {
    const owner = process === undefined ? undefined : processKey({ ...process, slot });
    for (const [port, holder] of this.#held) {
      if (owner === undefined ? holder.startsWith(`${slot}/`) : holder === owner) this.#held.delete(port);
    }
  }
}

/** A DOUBLE for the groups' part of the state directory. It outlives operators. */
export class GroupStoreDouble implements Pick<
  GroupStore,
  "loan" | "lend" | "endLoan" | "publish" | "published" | "watch"
> {
  readonly #loans = new Map<string, GroupLoan>();
  readonly #listeners = new Set<(groups: readonly string[]) => void>();
  #published: readonly GroupStatus[] = [];

  loan(group: string): GroupLoan | undefined {
    return this.#loans.get(group);
  }

  async lend(loan: GroupLoan): Promise<void> {
    this.#loans.set(loan.group, groupLoanSchema.parse(loan));
    for (const listener of this.#listeners) listener([loan.group]);
  }

  async endLoan(group: string, until = this.#loans.get(group)?.until): Promise<void> {
    if (this.#loans.get(group)?.until === until) this.#loans.delete(group);
    for (const listener of this.#listeners) listener([group]);
  }

  published(): readonly GroupStatus[] {
    return this.#published;
  }

  async publish(groups: readonly GroupStatus[]): Promise<void> {
    this.#published = publishedGroupsSchema.parse({ schema: 1, groups: [...groups] }).groups;
  }

  watch(onChange: (groups: readonly string[]) => void): Disposable {
    this.#listeners.add(onChange);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onChange) };
  }
}
