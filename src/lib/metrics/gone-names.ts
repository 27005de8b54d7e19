import { steadyNow } from "../steady-clock.ts";

/** So long the series of a name stay: its last work ends later, and it may come back. */
const graceMs = 10 * 60_000;
const everyMs = 5000;
/** At one time: whoever drops a name passes over all series. */
const mostAtOnce = 20;

/** Finds names, of which labels have the value, that have been gone for a while. */
export class GoneNames {
  readonly #isPresent: (name: string) => boolean;
  readonly #now: () => number;
  /** When each was first found absent. */
  readonly #since = new Map<string, number>();
  #sweptAt = -Infinity;

  constructor(isPresent: (name: string) => boolean, now: () => number = steadyNow) {
    this.#isPresent = isPresent;
    this.#now = now;
  }

  /** Some of the names whose time has come, which the caller drops; of frequent calls only one in five seconds looks. */
  due(names: () => Iterable<string>): readonly string[] {
    const now = this.#now();
    if (now - this.#sweptAt < everyMs) return [];
    this.#sweptAt = now;
    const due: string[] = [];
    const absent = new Set<string>();
    for (const name of names()) if (!this.#isPresent(name)) absent.add(name);
    for (const name of this.#since.keys()) if (!absent.has(name)) this.#since.delete(name);
    for (const name of absent) {
      const since = this.#since.get(name);
      if (since === undefined) this.#since.set(name, now);
      else if (now - since >= graceMs && due.length < mostAtOnce) due.push(name);
    }
    return due;
  }
}
