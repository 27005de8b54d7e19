/** At most `max` at once and `queue` waiting, first come, first served. */
export class Limiter {
  readonly #max: number;
  readonly #queue: number;
  readonly #waiting = new Set<() => void>();
  #busy = 0;

  constructor(options: { readonly max: number; readonly queue: number }) {
    this.#max = options.max;
    this.#queue = options.queue;
  }

  get busy(): number {
    return this.#busy;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Calls `onTurn` once, when there is a place, never within this call. Returns what gives the place back or, before
   * the turn, gives up waiting; it may be called any number of times. Undefined when the queue is full.
   */
  enter(onTurn: () => void): (() => void) | undefined {
    const isRoom = this.#busy < this.#max;
    if (!isRoom && this.#waiting.size >= this.#queue) return undefined;
    let hasPlace = isRoom;
    let hasLeft = false;
    const turn = (): void => {
      hasPlace = true;
      queueMicrotask(() => {
        if (!hasLeft) onTurn();
      });
    };
    if (isRoom) {
      this.#busy += 1;
      turn();
    } else this.#waiting.add(turn);
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      if (hasPlace) this.#free();
      else this.#waiting.delete(turn);
    };
  }

  /** A place passes from hand to hand, so that no newcomer can slip in between. */
  #free(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#busy -= 1;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
