import type { PublishedSlot } from "../../api/status.ts";

interface Release {
  readonly slot: string;
  readonly at: Date;
}

/**
 * When slots released memory: a loaded one is gone, or was loaded again and may need less. Not between the two: its
 * memory is still its own then, and a slot that took it would keep it from coming back. Nor after a failed load: two
 * slots that both lack memory would wake each other for ever.
 */
export class FreedMemory {
  /** The last release, and the last one by any other slot than that one. */
  #last: Release | undefined;
  #lastOfOther: Release | undefined;
  readonly #ready: Set<string>;
  /** Slots that were ready at some time since they were offline last. */
  readonly #wasReady: Set<string>;

  /** `published`: the state of an earlier operator. */
  constructor(published: Iterable<PublishedSlot> = []) {
    const ready = [...published].flatMap(({ name, status }) => (status.state === "ready" ? [name] : []));
    this.#ready = new Set(ready);
    this.#wasReady = new Set(ready);
  }

  /** Applies a new status; true where memory was released. `after` is undefined where the slot is gone. */
  note(slot: string, after: PublishedSlot | undefined, now: Date): boolean {
    const state = after?.status.state ?? "offline";
    const isGone = state === "offline" && this.#wasReady.has(slot);
    const isAnew = state === "ready" && !this.#ready.has(slot);
    if (state === "ready") {
      this.#ready.add(slot);
      this.#wasReady.add(slot);
    } else this.#ready.delete(slot);
    if (state === "offline") this.#wasReady.delete(slot);
    if (!isGone && !isAnew) return false;
    if (this.#last !== undefined && this.#last.slot !== slot) this.#lastOfOther = this.#last;
    this.#last = { slot, at: now };
    return true;
  }

  /** The last time that another slot released memory. */
  beside(slot: string): Date | undefined {
    return (this.#last?.slot === slot ? this.#lastOfOther : this.#last)?.at;
  }
}
