import type { MachineReading } from "../../api/machine-reading.ts";
import { steadyNow } from "../../lib/steady-clock.ts";

/** Milliseconds from one reading to the next, however many ask. */
const intervalMs = 5000;

export type ReadMachine = () => Promise<MachineReading>;

/**
 * How busy this machine is, read while somebody asks: there is no timer here. One reading at a time serves all, so that
 * clients cannot start programs as fast as they ask.
 */
export class MachineReadings {
  readonly #read: ReadMachine;
  readonly #now: () => number;
  #beganAtMs = -Infinity;
  #reading: Promise<MachineReading | undefined> | undefined;
  #last: MachineReading | undefined;
  #lastAtMs = -Infinity;

  constructor(read: ReadMachine, now: () => number = steadyNow) {
    this.#read = read;
    this.#now = now;
  }

  /** The last reading, unless it is older than two intervals; begins the next one where it is due. */
  latest(): MachineReading | undefined {
    void this.#refresh();
    return this.#now() - this.#lastAtMs > 2 * intervalMs ? undefined : this.#last;
  }

  /** A reading of the last five seconds; null where this machine cannot be read. */
  async now(): Promise<MachineReading | null> {
    return (await this.#refresh()) ?? null;
  }

  async #refresh(): Promise<MachineReading | undefined> {
    if (this.#reading === undefined && this.#now() - this.#beganAtMs >= intervalMs) {
      this.#beganAtMs = this.#now();
      this.#reading = this.#read()
        .catch(() => undefined)
        .then((reading) => {
          this.#reading = undefined;
          this.#lastAtMs = this.#now();
          return (this.#last = reading);
        });
    }
    return await (this.#reading ?? this.#last);
  }
}
