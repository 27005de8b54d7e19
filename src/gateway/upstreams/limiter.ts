/** At most `max` at once and `queue` waiting, first come, first served. */
export class Limiter {
  readonly #max: number;
  readonly #queue: number;
  /** What gives each its turn, by what gives the wait up. */
  readonly #waiting = new Map<() => void, () => void>();
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
    const leave = (): void => {
      if (hasLeft) return;
      hasLeft = true;
      if (hasPlace) this.#free();
      else this.#waiting.delete(leave);
    };
    if (isRoom) {
      this.#busy += 1;
      turn();
    } else this.#waiting.set(leave, turn);
    return leave;
  }

  /** How many get a turn until this one does, itself included; 0 when it does not wait. `leave` is what `enter` gave. */
  position(leave: () => void): number {
    let position = 0;
    for (const other of this.#waiting.keys()) {
      position += 1;
      if (other === leave) return position;
    }
    return 0;
  }

  /** A place passes from hand to hand, so that no newcomer can slip in between. */
  #free(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#busy -= 1;
    else {
      const [leave, turn] = next;
      this.#waiting.delete(leave);
      turn();
    }
  }
}
