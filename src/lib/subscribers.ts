/** A set of subscribers. */
export class Subscribers<A extends readonly unknown[]> {
  readonly #all = new Set<(...about: A) => void>();

  /** Calls `subscriber` at each notification, until disposed. */
  add(subscriber: (...about: A) => void): Disposable {
    this.#all.add(subscriber);
    return { [Symbol.dispose]: () => void this.#all.delete(subscriber) };
  }

  notify(...about: A): void {
    for (const subscriber of this.#all) subscriber(...about);
  }

  clear(): void {
    this.#all.clear();
  }
}
