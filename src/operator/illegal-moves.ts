import type { Logger } from "pino";
import type { SlotState } from "../api/states.ts";

export interface IllegalMove {
  readonly slot: string;
  readonly from: SlotState;
  readonly to: SlotState;
  /** Of the decision. */
  readonly reason: string;
}

/** Moves that the table of states forbids: each is counted, and told in the log once per slot and pair of states. */
export class IllegalMoves {
  readonly #log: Logger;
  readonly #onMove: (move: IllegalMove) => void;
  readonly #told = new Map<string, Set<string>>();

  constructor(log: Logger, onMove: (move: IllegalMove) => void) {
    this.#log = log;
    this.#onMove = onMove;
  }

  note(move: IllegalMove): void {
    const { slot, from, to, reason } = move;
    this.#onMove(move);
    const told = this.#told.get(slot) ?? new Set();
    this.#told.set(slot, told);
    if (told.has(`${from} ${to}`)) return;
    told.add(`${from} ${to}`);
    this.#log.error(
      { slot, from, to, reason },
      `${slot}: ${from} may not become ${to} (${reason}); error is published between them. Please report this fault of Berth's`,
    );
  }

  forget(slot: string): void {
    this.#told.delete(slot);
  }
}
