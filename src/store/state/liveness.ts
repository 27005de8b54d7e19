import { heartbeatTtlMs } from "../../api/status.ts";
import { bootId } from "../../lib/boot-id.ts";
import { steadyNow } from "../../lib/steady-clock.ts";

/** The identity and time of a publisher in each heartbeat. */
export interface Heartbeat {
  /** The name of one start of one publisher. */
  readonly incarnation: string;
  /** Grows with each heartbeat of an incarnation. */
  readonly beat: number;
  /** The publisher's wall clock. */
  readonly heartbeat: string;
  /** The boot of the publisher's machine. */
  readonly bootId: string;
}

/**
 * `live`: a recent heartbeat. `stale`: none recently, and the state was published since this machine booted, or while
 * this reader watched. `unproven`: neither is shown; the state may describe engines that a reboot has ended.
 */
export type Liveness = "live" | "stale" | "unproven";

export interface Clocks {
  /** Wall clock. */
  readonly now?: () => Date;
  /** Milliseconds of a monotonic clock. */
  readonly elapsedMs?: () => number;
  /** A first heartbeat that is younger by the wall clock counts as just heard, of whatever machine it is; absent: none. */
  readonly freshMs?: number;
}

/**
 * Whether publishers live, by the clock of the reader: the age of a heartbeat is the time since this reader saw it
 * replace another. Clocks of two machines are never compared. The first heartbeat that a reader sees may be of any age;
 * its time is trusted where the publisher's machine, and so its clock, is this one since this boot.
 */
export class LivenessWatch {
  readonly #now: () => number;
  readonly #elapsedMs: () => number;
  readonly #freshMs: number;
  /** The last heartbeat of each publisher, and when it replaced another; undefined: it is the first. */
  readonly #heard = new Map<string, { readonly mark: string; readonly atMs: number | undefined }>();

  constructor({ now = () => new Date(), elapsedMs = steadyNow, freshMs = 0 }: Clocks = {}) {
    this.#now = () => now().getTime();
    this.#elapsedMs = elapsedMs;
    this.#freshMs = freshMs;
  }

  /** To be called with the present heartbeats after every change. Missing publishers are forgotten. */
  note(present: ReadonlyMap<string, Heartbeat>): void {
    for (const name of this.#heard.keys()) if (!present.has(name)) this.#heard.delete(name);
    for (const [name, { incarnation, beat, heartbeat }] of present) {
      const mark = `${incarnation} ${beat}`;
      const known = this.#heard.get(name);
      if (known?.mark === mark) continue;
      const isHeard = known !== undefined || Math.abs(this.#now() - Date.parse(heartbeat)) < this.#freshMs;
      this.#heard.set(name, { mark, atMs: isHeard ? this.#elapsedMs() : undefined });
    }
  }

  of(name: string, { heartbeat, bootId: boot }: Heartbeat): Liveness {
    const atMs = this.#heard.get(name)?.atMs;
    if (atMs !== undefined) return this.#elapsedMs() - atMs < heartbeatTtlMs ? "live" : "stale";
    if (boot !== bootId()) return "unproven";
    // A timestamp in the future counts as stale by its distance from now: a clock set back must not keep a dead
    // publisher alive.
    return Math.abs(this.#now() - Date.parse(heartbeat)) < heartbeatTtlMs ? "live" : "stale";
  }
}
