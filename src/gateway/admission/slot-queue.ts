/** One request that wants a place at an engine. */
export interface Caller {
  /** Who asks. Requests of one client stand in line behind each other; clients take turns. */
  readonly client: string;
  /** Its client has seen the beginning of a stream: it keeps its place when the queue is full. */
  readonly hasBegun: boolean;
  /** Those of one party want one place together: whose turn comes first takes it for all. Absent: alone. */
  readonly party?: object;
}

/**
 * Whether callers may go in.
 *
 *   open    the engine takes requests
 *   shut    it is on its way, or will be tried again at `reopensAt`: callers wait
 *   closed  waiting would not help: callers fail at once
 */
export type Door =
  | { readonly kind: "open" }
  | { readonly kind: "shut"; readonly reopensAt?: number | undefined }
  | { readonly kind: "closed" };

/** Why a caller gets no place: the queue is full, its time is over, or the door is closed. */
export type Refusal = "full" | "late" | "closed";

export interface QueueLimits {
  /** Callers inside at once; Infinity: any number. */
  readonly max: number;
  /** Callers that may wait while the door is open; while it is shut, `max` more. */
  readonly queue: number;
  /** Milliseconds that a caller waits before a shut door. */
  readonly holdMs: number;
  /** Milliseconds that a caller waits for its turn at an open one; Infinity: any time. */
  readonly queueMs: number;
}

/** What the queue does to callers. Called with the queue in order, so that they may call it back. */
export interface QueueEffects<C extends Caller> {
  admit(caller: C): void;
  refuse(caller: C, refusal: Refusal): void;
}

interface Waiting<C> {
  readonly caller: C;
  readonly since: number;
}

/**
 * Who waits for one engine and who is inside: a state machine without clock, timers or sockets. Times are milliseconds
 * of any one clock. Every caller that arrives is admitted or refused once, or leaves.
 */
export class SlotQueue<C extends Caller> {
  readonly #effects: QueueEffects<C>;
  #limits: QueueLimits;
  #door: Door = { kind: "shut" };
  #shutSince = 0;
  #inside = 0;
  #count = 0;
  /** Who waits of each party. */
  readonly #parties = new Map<object, Set<C>>();
  /** By client; the order of the keys is the order of turns. */
  readonly #lines = new Map<string, Waiting<C>[]>();

  constructor(effects: QueueEffects<C>, limits: QueueLimits) {
    this.#effects = effects;
    this.#limits = limits;
  }

  get inside(): number {
    return this.#inside;
  }

  /** A party counts as one. */
  get waiting(): number {
    return this.#count;
  }

  /** Each of a party. */
  get callers(): number {
    let callers = 0;
    for (const line of this.#lines.values()) callers += line.length;
    return callers;
  }

  get door(): Door["kind"] {
    return this.#door.kind;
  }

  /** `admitted` and a refusal are told by the answer alone; one that waits hears from the effects. */
  arrive(caller: C, now: number): "admitted" | "waiting" | Refusal {
    if (this.#door.kind === "open" && this.#count === 0 && this.#inside < this.#limits.max) {
      this.#inside += 1;
      return "admitted";
    }
    if (this.#door.kind === "closed") return "closed";
    const waiting = { caller, since: now };
    const deadline = this.#deadline(waiting);
    if (deadline <= now || this.#opensAfter(deadline)) return "late";
    const { max, queue } = this.#limits;
    const capacity = this.#door.kind === "open" ? queue : max + queue;
    const isExpected = caller.party !== undefined && this.#parties.has(caller.party);
    if (!isExpected && this.#count >= capacity && !this.#displace(caller.client)) return "full";
    const line = this.#lines.get(caller.client);
    if (line === undefined) this.#lines.set(caller.client, [waiting]);
    else line.push(waiting);
    this.#count += isExpected ? 0 : 1;
    this.#meet(caller);
    return "waiting";
  }

  /** A caller that waited has left. False when it was not waiting. */
  leave(caller: C): boolean {
    const line = this.#lines.get(caller.client);
    const at = line?.findIndex((waiting) => waiting.caller === caller) ?? -1;
    if (line === undefined || at < 0) return false;
    this.#remove(caller.client, line, at);
    return true;
  }

  /** One that was admitted is done; the next may go in. */
  finish(): void {
    this.#inside -= 1;
    this.#admitNext();
  }

  change(door: Door, limits: QueueLimits, now: number): void {
    if (door.kind === "shut" && this.#door.kind !== "shut") this.#shutSince = now;
    this.#door = door;
    this.#limits = limits;
    if (door.kind === "closed") this.#refuseWhere("closed", () => true);
    else if (door.kind === "shut") this.#refuseWhere("late", (waiting) => this.#opensAfter(this.#deadline(waiting)));
    this.#admitNext();
  }

  /** Refuses those whose time is over. Answers with the time of the next deadline, Infinity for none. */
  expire(now: number): number {
    this.#refuseWhere("late", (waiting) => this.#deadline(waiting) <= now);
    let next = Infinity;
    for (const line of this.#lines.values()) for (const waiting of line) next = Math.min(next, this.#deadline(waiting));
    return next;
  }

  /**
   * How many are admitted until it is this caller's turn, or that of its party, itself included; 0 when it does not
   * wait. Those who stand there for a party are all counted: it may be sooner.
   */
  position(caller: C): number {
    const party = this.#partyOf(caller);
    if (party === undefined) return this.#positionOf(caller);
    return Math.min(...[...party].map((each) => this.#positionOf(each)));
  }

  #positionOf(caller: C): number {
    const own = this.#lines.get(caller.client);
    const at = own?.findIndex((waiting) => waiting.caller === caller) ?? -1;
    if (own === undefined || at < 0) return 0;
    let position = at + 1;
    let isBefore = true;
    for (const line of this.#lines.values()) {
      if (line === own) isBefore = false;
      else position += Math.min(line.length, isBefore ? at + 1 : at);
    }
    return position;
  }

  #deadline({ since }: Waiting<C>): number {
    if (this.#door.kind === "open") return since + this.#limits.queueMs;
    return Math.max(since, this.#shutSince) + this.#limits.holdMs;
  }

  #opensAfter(deadline: number): boolean {
    return this.#door.kind === "shut" && this.#door.reopensAt !== undefined && this.#door.reopensAt > deadline;
  }

  #admitNext(): void {
    while (this.#count > 0 && this.#door.kind === "open" && this.#inside < this.#limits.max) {
      const [turn] = this.#lines;
      if (turn === undefined) return;
      const [client, line] = turn;
      const [next] = line;
      if (next === undefined) return;
      this.#remove(client, line, 0);
      // The client's other requests wait until every other client has had a turn.
      if (this.#lines.delete(client)) this.#lines.set(client, line);
      for (const other of this.#partyOf(next.caller) ?? []) this.leave(other);
      this.#inside += 1;
      this.#effects.admit(next.caller);
    }
  }

  /** Makes room by sending away the newest of the client that has most waiting, when that is fairer. */
  #displace(client: string): boolean {
    const own = this.#lines.get(client)?.length ?? 0;
    let longest: [client: string, line: Waiting<C>[], at: number] | undefined;
    for (const [other, line] of this.#lines) {
      if (other === client || line.length <= own + 1 || line.length <= (longest?.[1].length ?? 0)) continue;
      // One of several who wait together frees no place by leaving.
      const at = line.findLastIndex(({ caller }) => !caller.hasBegun && (this.#partyOf(caller)?.size ?? 1) === 1);
      if (at >= 0) longest = [other, line, at];
    }
    if (longest === undefined) return false;
    const [other, line, at] = longest;
    const displaced = line[at];
    this.#remove(other, line, at);
    if (displaced !== undefined) this.#effects.refuse(displaced.caller, "full");
    return true;
  }

  #refuseWhere(refusal: Refusal, isOver: (waiting: Waiting<C>) => boolean): void {
    const over: C[] = [];
    for (const [client, line] of this.#lines) {
      const kept = line.filter((waiting) => {
        if (!isOver(waiting)) return true;
        over.push(waiting.caller);
        return false;
      });
      if (kept.length === 0) this.#lines.delete(client);
      else if (kept.length < line.length) line.splice(0, line.length, ...kept);
    }
    for (const caller of over) this.#part(caller);
    for (const caller of over) this.#effects.refuse(caller, refusal);
  }

  #remove(client: string, line: Waiting<C>[], at: number): void {
    const [removed] = line.splice(at, 1);
    if (line.length === 0) this.#lines.delete(client);
    if (removed !== undefined) this.#part(removed.caller);
  }

  #partyOf({ party }: C): ReadonlySet<C> | undefined {
    return party === undefined ? undefined : this.#parties.get(party);
  }

  #meet(caller: C): void {
    if (caller.party === undefined) return;
    const party = this.#parties.get(caller.party) ?? new Set();
    this.#parties.set(caller.party, party.add(caller));
  }

  /** It stands in no line any more; the place it waited for is free when it was the last of its party. */
  #part(caller: C): void {
    if (caller.party !== undefined) {
      const party = this.#parties.get(caller.party);
      party?.delete(caller);
      if (party !== undefined && party.size > 0) return;
      this.#parties.delete(caller.party);
    }
    this.#count -= 1;
  }
}
