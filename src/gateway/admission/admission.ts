import { ApiError } from "../../api/errors.ts";
import type { ProcessRole } from "../../api/names.ts";
import type { PublishedOperator } from "../../api/status.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { KnownSlot, ResolutionIndex } from "../index.ts";
import { availabilityOf, type Availability, type Endpoint } from "./availability.ts";
import { SlotQueue, type Caller, type Door, type QueueLimits, type Refusal } from "./slot-queue.ts";

/** A caller and what it hears. Exactly one of the two is called, once, unless it leaves. */
export interface Visitor extends Caller {
  onAdmitted(endpoint: Endpoint): void;
  onRefused(failure: ApiError): void;
}

/** What a waiting client may be told of its place. */
export interface Place {
  /** Where: at a slot or at an upstream, of that name. */
  readonly at: "slot" | "upstream";
  readonly name: string;
  /** `queued` at a slot that is there, else the slot's state. */
  readonly state: string;
  readonly position: number;
  readonly progress: number | undefined;
}

export interface AdmissionOptions {
  readonly index: () => ResolutionIndex;
  readonly operator: () => PublishedOperator | undefined;
  readonly bootId: string;
  /** Milliseconds that a request waits for a slot that is not there; 0: not at all. */
  readonly holdMs: number;
  /** Milliseconds of a clock that nobody sets; tests move theirs. */
  readonly now?: () => number;
}

/** While somebody waits, everything is looked at again this often: no wake-up can be lost for good. */
const lookAgainMs = 1000;
/** How much the last request counts in the mean time that one takes. */
const meanWeight = 0.2;

/**
 * The door of every engine: one queue for each process of each slot, opened and shut by what the operator publishes.
 * Entering a slot that is there costs one look into a map.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #now: () => number;
  readonly #lines = new Map<string, Line>();
  #timer: NodeJS.Timeout | undefined;
  /** Why nobody is let in any more. */
  #closed: ApiError | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#now = options.now ?? steadyNow;
  }

  /** The line of a slot's process. Cheap after the first call. */
  line(slot: string, role: ProcessRole): Line {
    const key = role === "main" ? slot : `${slot} ${role}`;
    let line = this.#lines.get(key);
    if (line === undefined) {
      line = new Line(slot, role);
      this.#lines.set(key, line);
      this.#look(line);
    }
    return line;
  }

  /** The endpoint when the visitor is in already; undefined when it hears later. Throws ApiError when refused. */
  enter(line: Line, visitor: Visitor): Endpoint | undefined {
    this.look(line);
    return this.stand(line, visitor);
  }

  /** What is not open may have changed by time alone, such as the distance to the next try. */
  look(line: Line): void {
    if (line.queue.door !== "open") this.#look(line);
  }

  /** As `enter`, by what was seen last. */
  stand(line: Line, visitor: Visitor): Endpoint | undefined {
    const now = this.#now();
    const outcome = line.queue.arrive(visitor, now);
    if (outcome === "admitted") return line.endpoint;
    if (outcome !== "waiting") throw line.failure(outcome);
    this.#arm(line.queue.expire(now));
    return undefined;
  }

  /** One that was let in is done. */
  finish(line: Line, tookMs: number): void {
    line.meanMs = line.meanMs === 0 ? tookMs : line.meanMs + meanWeight * (tookMs - line.meanMs);
    line.queue.finish();
  }

  place(line: Line, visitor: Visitor): Place {
    const status = this.#options.index().slots.get(line.slot)?.status;
    const { bytesDone, bytesTotal } = status?.progress ?? {};
    return {
      at: "slot",
      name: line.slot,
      state: line.queue.door === "open" ? "queued" : (status?.state ?? "offline"),
      position: line.queue.position(visitor),
      progress: bytesDone === undefined || !bytesTotal ? undefined : Math.floor((100 * bytesDone) / bytesTotal),
    };
  }

  /** Looks at what is published now, for one slot or all. */
  refresh(slot?: string): void {
    for (const line of this.#lines.values()) if (slot === undefined || line.slot === slot) this.#look(line);
  }

  /** How many requests wait, by why: before a slot that is not there, or for their turn. */
  counts(slot: string): { held: number; queued: number } {
    let held = 0;
    let queued = 0;
    for (const line of this.#lines.values()) {
      if (line.slot !== slot) continue;
      if (line.queue.door === "open") queued += line.queue.callers;
      else held += line.queue.callers;
    }
    return { held, queued };
  }

  /** Sends everybody away who waits, and whoever comes later. */
  close(failure: ApiError): void {
    clearTimeout(this.#timer);
    this.#closed = failure;
    this.refresh();
  }

  #look(line: Line): void {
    const now = this.#now();
    if (this.#closed !== undefined) {
      line.change({ kind: "closed", failure: this.#closed }, closedLimits, now);
      return;
    }
    const { index, operator, bootId, holdMs } = this.#options;
    const known = index().slots.get(line.slot);
    if (known === undefined) {
      const failure = new ApiError("model.not_found", { message: `slot ${line.slot} is gone` });
      line.change({ kind: "closed", failure }, closedLimits, now);
      return;
    }
    const availability = availabilityOf(known, line.role, { bootId, operator: operator(), now: Date.now() });
    line.change(availability, limitsOf(known, holdMs), now);
  }

  #arm(deadline: number): void {
    if (this.#timer !== undefined || deadline === Infinity) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#tick();
      },
      Math.min(lookAgainMs, Math.max(1, deadline - this.#now())),
    );
  }

  #tick(): void {
    let next = Infinity;
    for (const line of this.#lines.values()) {
      if (line.queue.waiting === 0) continue;
      if (line.queue.door !== "open") this.#look(line);
      next = Math.min(next, line.queue.expire(this.#now()));
      if (line.queue.waiting > 0) next = Math.min(next, this.#now() + lookAgainMs);
    }
    this.#arm(next);
  }
}

/** Those who want one process of one slot. */
export class Line {
  readonly slot: string;
  readonly role: ProcessRole;
  readonly queue: SlotQueue<Visitor>;
  /** Mean milliseconds that one request takes; 0 unknown. */
  meanMs = 0;
  #availability: Availability | undefined;
  #max = 1;

  constructor(slot: string, role: ProcessRole) {
    this.slot = slot;
    this.role = role;
    this.queue = new SlotQueue<Visitor>(
      {
        admit: (visitor) => {
          const { endpoint } = this;
          if (endpoint !== undefined) visitor.onAdmitted(endpoint);
        },
        refuse: (visitor, refusal) => visitor.onRefused(this.failure(refusal)),
      },
      closedLimits,
    );
  }

  get endpoint(): Endpoint | undefined {
    return this.#availability?.kind === "open" ? this.#availability.endpoint : undefined;
  }

  change(availability: Availability, limits: QueueLimits, now: number): void {
    this.#availability = availability;
    this.#max = limits.max;
    this.queue.change(doorOf(availability, now), limits, now);
  }

  failure(refusal: Refusal): ApiError {
    const availability = this.#availability;
    if (refusal !== "full" && availability !== undefined && availability.kind !== "open") return availability.failure;
    const seconds = Math.ceil(((this.queue.waiting + 1) * (this.meanMs || 1000)) / 1000 / Math.min(this.#max, 1000));
    return new ApiError("slot.overloaded", {
      message: `slot ${this.slot} is busy: ${this.queue.inside} requests under way, ${this.queue.waiting} waiting`,
      details: { slot: this.slot, in_flight: this.queue.inside, queued: this.queue.waiting },
      headers: { "retry-after": String(Math.min(600, Math.max(1, seconds))) },
    });
  }
}

const closedLimits: QueueLimits = { max: 1, queue: 0, holdMs: 0, queueMs: 0 };

function doorOf(availability: Availability, now: number): Door {
  if (availability.kind !== "shut") return { kind: availability.kind };
  const { reopensInMs } = availability;
  return { kind: "shut", reopensAt: reopensInMs === undefined ? undefined : now + reopensInMs };
}

function limitsOf({ spec }: KnownSlot, holdMs: number): QueueLimits {
  const max = spec.concurrency.max ?? parallelOf(spec);
  return {
    max: max === 0 ? Infinity : max,
    queue: spec.concurrency.queue,
    holdMs,
    queueMs: spec.timeoutSeconds.firstByte === 0 ? Infinity : spec.timeoutSeconds.firstByte * 1000,
  };
}

/** What an engine runs in parallel (DECISIONS 13); 0 any number. */
function parallelOf({ engine, model }: KnownSlot["spec"]): number {
  switch (engine) {
    case "llama":
    case "npu":
      return model.parallel;
    case "stt":
    case "tts":
    case "image":
      return 1;
    case "custom":
      return 0;
    default:
      return engine satisfies never;
  }
}
