import type { Kind, ProcessRole } from "../../src/api/names.ts";
import { completeSlot, slotSpecSchema, type SlotSpecInput } from "../../src/api/slot.ts";
import { lintPorts, lintStatus } from "../../src/api/status-linter.ts";
import { publishedSlotSchema, type Demand, type PublishedSlot, type SlotRequest } from "../../src/api/status.ts";
import { canonicalJson, sha256 } from "../../src/lib/canonical.ts";
import type { Clock } from "../../src/operator/queue.ts";
import type { PortLeases } from "../../src/operator/world.ts";
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
  readonly #others = new Map<string, Desired<"Model" | "Upstream">>();
  readonly #listeners = new Set<(kind: Kind, name: string) => void>();
  readonly #now: () => Date;
  /** Keys that were asked for, in order. */
  readonly asked: string[] = [];

  constructor(now: () => Date) {
    this.#now = now;
  }

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
      file: `/config/slots/${name}.toml`,
      since: this.#slots.get(name)?.since ?? this.#now(),
      diagnostics: [],
    });
    this.#tell(name);
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
      file,
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
    this.#others.set(name, { kind, name, file, ...nothing, diagnostics });
    this.#tell(name, kind);
  }

  deleteOther(kind: "Model" | "Upstream", name: string): void {
    this.#others.delete(name);
    this.#tell(name, kind);
  }

  delete(name: string): void {
    this.#slots.delete(name);
    this.#tell(name);
  }

  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined {
    this.asked.push(name);
    const found = this.#slots.get(name);
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
    const isHere = (problem: string): boolean =>
      !this.isClockSetBack || !problem.endsWith("lastTransitionTime went back");
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

  async writeRegistry(): Promise<void> {}

  async writeOperator(): Promise<void> {}
}

/** A DOUBLE for one gateway's demand: it tells at once that it has seen `unloading`, and the rest within a second. */
export class DemandDouble implements DemandStore {
  readonly slots: Demand["slots"] = {};
  /** Told to have seen nothing of what was published. */
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
      // As a heartbeat does: however often a slot was written meanwhile, it is told of once.
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

  reserve(slot: string, role: ProcessRole, fixed?: number, avoid?: ReadonlySet<number>): number | undefined {
    const owner = `${slot}/${role}`;
    const own = [...this.#held].find(([, holder]) => holder === owner)?.[0];
    if (fixed === undefined && own !== undefined && !this.#strangers.has(own)) return own;
    if (fixed !== undefined && this.holder(fixed) !== undefined && this.holder(fixed) !== owner) return undefined;
    const free = (port: number): boolean =>
      !this.#held.has(port) && !this.#strangers.has(port) && avoid?.has(port) !== true;
    let port = fixed ?? this.#first;
    while (fixed === undefined && port <= this.#last && !free(port)) port += 1;
    if (fixed === undefined && port > this.#last) return undefined;
    if (own !== undefined) this.#held.delete(own);
    this.#held.set(port, owner);
    return port;
  }

  holder(port: number): string | undefined {
    return this.#held.get(port);
  }

  release(slot: string, role?: ProcessRole): void {
    for (const [port, holder] of this.#held) {
      if (role === undefined ? holder.startsWith(`${slot}/`) : holder === `${slot}/${role}`) this.#held.delete(port);
    }
  }
}
