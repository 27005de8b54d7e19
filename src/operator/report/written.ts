import type { Logger } from "pino";
import { errorMessage } from "../../lib/error-code.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { Publisher, SourceProblem } from "../../store/store.ts";

/**
 * Writes the statuses of slots for gateways, and remembers those that could not be written. Until the last status of a slot
 * is written, nothing is done for that slot: gateways never read of an engine that was replaced.
 */
export class PublishedWriter {
  readonly #publisher: Publisher;
  readonly #log: Logger;
  /** Slots whose last status is not written, and why. */
  readonly #failing = new Map<string, string>();

  constructor(publisher: Publisher, log: Logger) {
    this.#publisher = publisher;
    this.#log = log;
  }

  /** Gateways cannot read the last status of the slot. */
  isBehind(slot: string): boolean {
    return this.#failing.has(slot);
  }

  /** Returns whether the status is written. Never rejects. */
  async write(slot: PublishedSlot): Promise<boolean> {
    const { name } = slot;
    try {
      await this.#publisher.writeSlot(slot);
      if (this.#failing.delete(name)) this.#log.info({ slot: name }, `${name}: its status is written again`);
      return true;
    } catch (error) {
      this.#noteFailure(name, errorMessage(error));
      return false;
    }
  }

  forget(slot: string): void {
    this.#failing.delete(slot);
  }

  /** Notes which of these statuses somebody has deleted, and returns them: they are to be written again. */
  noteDeleted(slots: Iterable<string>): readonly string[] {
    const deleted = this.#publisher.missingSlots(slots).filter((name) => !this.#failing.has(name));
    for (const name of deleted) this.#noteFailure(name, "it was deleted");
    return deleted;
  }

  /** For health, the log and `berth status`. */
  problems(): readonly SourceProblem[] {
    const failing = [...this.#failing];
    const [first] = failing;
    if (first === undefined) return [];
    const names = failing.map(([name]) => name).join(", ");
    const message = `the status of ${names} is not written in ${this.#publisher.place}: ${first[1]}; until it is, nothing more is done for these slots`;
    return [{ reason: "StatusNotWritten", message }];
  }

  #noteFailure(name: string, why: string): void {
    if (!this.#failing.has(name))
      this.#log.error(
        { slot: name },
        `${name}: its status is not written: ${why}; until it is, nothing more is done for this slot`,
      );
    this.#failing.set(name, why);
  }
}
