import type { PublishedSlot } from "../api/status.ts";

/**
 * When slots have given memory back: one that was loaded is gone, or is loaded anew and may take less. Not while it is
 * between the two: its memory is its own then, and whoever took it would keep it from coming back. Nor one that failed to
 * load: two that both lack memory would wake each other for ever.
 */
export class FreedMemory {
  readonly #at = new Map<string, Date>();
  readonly #ready: Set<string>;
  /** Ready at some time since they were offline last. */
  readonly #wasReady: Set<string>;

  /** `published`: what an earlier operator has left. */
  constructor(published: Iterable<PublishedSlot> = []) {
    const ready = [...published].flatMap(({ name, status }) => (status.state === "ready" ? [name] : []));
    this.#ready = new Set(ready);
    this.#wasReady = new Set(ready);
  }

  /** Notes what a new status tells; true where memory was given back. `after` is undefined where the slot is gone. */
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
    this.#at.set(slot, now);
    return true;
  }

  /** The last time that a slot other than this one gave memory back. */
  beside(slot: string): Date | undefined {
    let latest: Date | undefined;
    for (const [other, at] of this.#at) if (other !== slot && (latest === undefined || at > latest)) latest = at;
    return latest;
  }
}
