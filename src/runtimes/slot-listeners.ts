/** Those who want to hear of slots that something happened to. */
export class SlotListeners {
  readonly #listeners = new Set<(slot: string) => void>();

  /** Calls `onSlot` for each slot told of, until disposed. */
  add(onSlot: (slot: string) => void): Disposable {
    this.#listeners.add(onSlot);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onSlot) };
  }

  tell(slot: string): void {
    for (const listener of this.#listeners) listener(slot);
  }

  clear(): void {
    this.#listeners.clear();
  }
}
