import type { Logger } from "pino";
import type { SlotState } from "../../api/states.ts";

export interface IllegalTransition {
  readonly slot: string;
  readonly from: SlotState;
  readonly to: SlotState;
  /** The decision's reason. */
  readonly reason: string;
}

/** Transitions that the table of states forbids: each is counted, and logged once per slot and pair of states. */
export class IllegalTransitions {
  readonly #log: Logger;
  readonly #onTransition: (transition: IllegalTransition) => void;
  readonly #logged = new Map<string, Set<string>>();

  constructor(log: Logger, onTransition: (transition: IllegalTransition) => void) {
    this.#log = log;
    this.#onTransition = onTransition;
  }

  record(transition: IllegalTransition): void {
    const { slot, from, to, reason } = transition;
    this.#onTransition(transition);
    const logged = this.#logged.get(slot) ?? new Set();
    this.#logged.set(slot, logged);
    if (logged.has(`${from} ${to}`)) return;
    logged.add(`${from} ${to}`);
    this.#log.error(
      { slot, from, to, reason },
      `${slot}: ${from} may not become ${to} (${reason}); error is published between them. Please report this fault of Berth's`,
    );
  }

  forget(slot: string): void {
    this.#logged.delete(slot);
  }
}
