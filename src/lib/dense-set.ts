/** A member knows its own index, so that adding and deleting hash nothing. */
export interface DenseMember {
  /** Written by the set alone; -1 outside of it. */
  denseIndex: number;
}

/**
 * A set for members that come and go thousands of times a second, in no order; a member is in one such set at a time.
 *
 * A `Set` makes a new table after as many deletions as it has room for, and V8 lets the old table point to the new one.
 * Once one of those tables is old, each next table outlives the young collections with all members of its time, until a
 * full collection: of the gateway's requests 40 % did (docs/performance.md). This array is never replaced by a smaller one.
 */
export class DenseSet<T extends DenseMember> {
  readonly #members: (T | undefined)[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(member: T): void {
    if (this.#members[member.denseIndex] === member) return;
    member.denseIndex = this.#size;
    this.#members[this.#size] = member;
    this.#size += 1;
  }

  /** Nothing for what is no member. */
  delete(member: T): void {
    const index = member.denseIndex;
    if (this.#members[index] !== member) return;
    this.#size -= 1;
    const last = this.#members[this.#size];
    this.#members[this.#size] = undefined;
    member.denseIndex = -1;
    if (last === undefined || last === member) return;
    this.#members[index] = last;
    last.denseIndex = index;
  }

  /** The members of this moment. */
  toArray(): T[] {
    return this.#members.filter((member) => member !== undefined);
  }
}
