/** The client of a request in a queue. */
export interface QueuedClient {
  /** Requests of one client wait for each other; clients take turns. */
  readonly client: string;
  /** The client has received the beginning of its answer: the request keeps its position when the queue is full. */
  readonly hasBegun: boolean;
  /** When its request first waited. The queue sets it; a request that enters again has no more time than it would have had there. */
  waitsSince?: number | undefined;
}

/**
 * One request that wants a place at an engine. One of the two functions is called once for a request that waits, unless it leaves;
 * the queue is in a consistent state then, so that the request may call it.
 */
export interface QueuedRequest {
  readonly from: QueuedClient;
  /** Members of one group share one position: the first turn counts for all. Absent: alone. */
  readonly group?: object;
  onAdmitted(): void;
  onRefused(refusal: Refusal): void;
}

/**
 * Whether requests are admitted.
 *
 *   open    the engine accepts requests
 *   shut    it is loading, or will be tried again at `reopensAt`: requests wait. `since`: since when; absent: from now on
 *   closed  waiting would not help: requests fail at once
 */
export type GateState =
  | { readonly kind: "open" }
  | { readonly kind: "shut"; readonly reopensAt?: number | undefined; readonly since?: number | undefined }
  | { readonly kind: "closed" };

/** Why a request gets no place: the queue is full, its time is over, or the gate is closed. */
export type Refusal = "full" | "late" | "closed";

export interface QueueLimits {
  /** Admitted requests at once; Infinity: any number. */
  readonly max: number;
  /** Requests that may wait while the gate is open; while it is shut, `max` more. */
  readonly queue: number;
  /** Milliseconds that a request waits at a shut gate. */
  readonly holdMs: number;
  /** Milliseconds that a request waits at an open gate; Infinity: any time. */
  readonly queueMs: number;
}

interface QueueEntry {
  readonly request: QueuedRequest;
  readonly since: number;
}

/**
 * The waiting and the admitted requests of one engine: a state machine without clock, timers or sockets. Times are
 * milliseconds of any one clock. Every request is admitted or refused once, or leaves.
 */
export class SlotQueue {
  #limits: QueueLimits;
  #gate: GateState = { kind: "shut" };
  #shutSince = 0;
  #openSince = 0;
  #inside = 0;
  #count = 0;
  /** The waiting members of each group. */
  readonly #groups = new Map<object, Set<QueuedRequest>>();
  /** By client; the order of the keys is the order of turns. */
  readonly #byClient = new Map<string, QueueEntry[]>();

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get inside(): number {
    return this.#inside;
  }

  /** A group counts as one. */
  get waiting(): number {
    return this.#count;
  }

  /** Each member of a group counts. */
  get callers(): number {
    let callers = 0;
    for (const entries of this.#byClient.values()) callers += entries.length;
    return callers;
  }

  get gate(): GateState["kind"] {
    return this.#gate.kind;
  }

  /** A request that arrives now is admitted at once. */
  get isFree(): boolean {
    return this.#gate.kind === "open" && this.#count === 0 && this.#inside < this.#limits.max;
  }

  /** How much of a wait that ends at `now` passed before the gate opened. */
  heldMs(waitMs: number, now: number): number {
    return this.#gate.kind === "open" ? Math.max(0, waitMs - (now - this.#openSince)) : waitMs;
  }

  /** The return value alone reports `admitted` and a refusal; a waiting request is told later. */
  arrive(request: QueuedRequest, now: number): "admitted" | "waiting" | Refusal {
    if (this.isFree) {
      this.#inside += 1;
      return "admitted";
    }
    if (this.#gate.kind === "closed") return "closed";
    const waiting = { request, since: (request.from.waitsSince ??= now) };
    const deadline = this.#deadline(waiting);
    if (deadline <= now || this.#opensAfter(deadline)) return "late";
    const { max, queue } = this.#limits;
    const capacity = this.#gate.kind === "open" ? queue : max + queue;
    const isExpected = request.group !== undefined && this.#groups.has(request.group);
    if (!isExpected && this.#count >= capacity && !this.#displace(request.from.client)) return "full";
    const entries = this.#byClient.get(request.from.client);
    if (entries === undefined) this.#byClient.set(request.from.client, [waiting]);
    else entries.push(waiting);
    this.#count += isExpected ? 0 : 1;
    this.#meet(request);
    return "waiting";
  }

  /** Since when the oldest waiting request has waited; undefined without one. */
  get oldest(): number | undefined {
    let oldest: number | undefined;
    for (const entries of this.#byClient.values())
      for (const { since } of entries) oldest = oldest === undefined ? since : Math.min(oldest, since);
    return oldest;
  }

  /** A waiting request has left. False when it was not waiting. */
  leave(request: QueuedRequest): boolean {
    const entries = this.#byClient.get(request.from.client);
    const at = entries?.findIndex((waiting) => waiting.request === request) ?? -1;
    if (entries === undefined || at < 0) return false;
    this.#remove(request.from.client, entries, at);
    return true;
  }

  /** An admitted request has ended; the next may be admitted. */
  finish(): void {
    this.#inside -= 1;
    this.#admitNext();
  }

  /** `inside`: the number of admitted requests that hold a place now. */
  change(gate: GateState, limits: QueueLimits, now: number, inside = this.#inside): void {
    this.#inside = inside;
    if (gate.kind === "shut" && this.#gate.kind !== "shut") this.#shutSince = gate.since ?? now;
    if (gate.kind === "open" && this.#gate.kind !== "open") this.#openSince = now;
    this.#gate = gate;
    this.#limits = limits;
    if (gate.kind === "closed") this.#refuseWhere("closed", () => true);
    else if (gate.kind === "shut") this.#refuseWhere("late", (waiting) => this.#opensAfter(this.#deadline(waiting)));
    this.#admitNext();
  }

  /** Refuses requests whose time is over. Returns the time of the next deadline, Infinity for none. */
  expire(now: number): number {
    this.#refuseWhere("late", (waiting) => this.#deadline(waiting) <= now);
    let next = Infinity;
    for (const entries of this.#byClient.values())
      for (const waiting of entries) next = Math.min(next, this.#deadline(waiting));
    return next;
  }

  /**
   * The number of admissions until this request's turn, or its group's, itself included; 0 when it does not wait. The
   * members of a group are all counted, so the turn may come sooner.
   */
  position(request: QueuedRequest): number {
    const group = this.#groupOf(request);
    if (group === undefined) return this.#positionOf(request);
    return Math.min(...[...group].map((each) => this.#positionOf(each)));
  }

  #positionOf(request: QueuedRequest): number {
    const own = this.#byClient.get(request.from.client);
    const at = own?.findIndex((waiting) => waiting.request === request) ?? -1;
    if (own === undefined || at < 0) return 0;
    let position = at + 1;
    let isBefore = true;
    for (const entries of this.#byClient.values()) {
      if (entries === own) isBefore = false;
      else position += Math.min(entries.length, isBefore ? at + 1 : at);
    }
    return position;
  }

  #deadline({ since }: QueueEntry): number {
    if (this.#gate.kind === "open") return since + this.#limits.queueMs;
    return Math.max(since, this.#shutSince) + this.#limits.holdMs;
  }

  #opensAfter(deadline: number): boolean {
    return this.#gate.kind === "shut" && this.#gate.reopensAt !== undefined && this.#gate.reopensAt > deadline;
  }

  #admitNext(): void {
    while (this.#count > 0 && this.#gate.kind === "open" && this.#inside < this.#limits.max) {
      const [turn] = this.#byClient;
      if (turn === undefined) return;
      const [client, entries] = turn;
      const [next] = entries;
      if (next === undefined) return;
      this.#remove(client, entries, 0);
      // The client's other requests wait until every other client has had a turn.
      if (this.#byClient.delete(client)) this.#byClient.set(client, entries);
      for (const other of this.#groupOf(next.request) ?? []) this.leave(other);
      this.#inside += 1;
      next.request.onAdmitted();
    }
  }

  /** Makes room by refusing the newest request of the client with most waiting, when that is fairer. */
  #displace(client: string): boolean {
    const own = this.#byClient.get(client)?.length ?? 0;
    let longest: [client: string, entries: QueueEntry[], at: number] | undefined;
    for (const [other, entries] of this.#byClient) {
      if (other === client || entries.length <= own + 1 || entries.length <= (longest?.[1].length ?? 0)) continue;
      // A member of a waiting group makes no room by leaving.
      const at = entries.findLastIndex(
        ({ request }) => !request.from.hasBegun && (this.#groupOf(request)?.size ?? 1) === 1,
      );
      if (at >= 0) longest = [other, entries, at];
    }
    if (longest === undefined) return false;
    const [other, entries, at] = longest;
    const displaced = entries[at];
    this.#remove(other, entries, at);
    displaced?.request.onRefused("full");
    return true;
  }

  #refuseWhere(refusal: Refusal, isOver: (waiting: QueueEntry) => boolean): void {
    const over: QueuedRequest[] = [];
    for (const [client, entries] of this.#byClient) {
      const kept = entries.filter((waiting) => {
        if (!isOver(waiting)) return true;
        over.push(waiting.request);
        return false;
      });
      if (kept.length === 0) this.#byClient.delete(client);
      else if (kept.length < entries.length) entries.splice(0, entries.length, ...kept);
    }
    for (const request of over) this.#part(request);
    for (const request of over) request.onRefused(refusal);
  }

  #remove(client: string, entries: QueueEntry[], at: number): void {
    const [removed] = entries.splice(at, 1);
    if (entries.length === 0) this.#byClient.delete(client);
    if (removed !== undefined) this.#part(removed.request);
  }

  #groupOf({ group }: QueuedRequest): ReadonlySet<QueuedRequest> | undefined {
    return group === undefined ? undefined : this.#groups.get(group);
  }

  #meet(request: QueuedRequest): void {
    if (request.group === undefined) return;
    const group = this.#groups.get(request.group) ?? new Set();
    this.#groups.set(request.group, group.add(request));
  }

  /** Removes it from its queue; its position is free when it was the last of its group. */
  #part(request: QueuedRequest): void {
    if (request.group !== undefined) {
      const group = this.#groups.get(request.group);
      group?.delete(request);
      if (group !== undefined && group.size > 0) return;
      this.#groups.delete(request.group);
    }
    this.#count -= 1;
  }
}
