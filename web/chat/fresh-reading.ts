/** Reads what this page changes too, such as the list of conversations: an answer from before a change is out of date. */
export class FreshReading<T> {
  readonly #read: () => Promise<T>;
  #begun = 0;
  #changes = 0;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }

  /** Says that this page has changed the list: an answer that is on its way is out of date, and is read again. */
  changed(): void {
    this.#changes += 1;
  }

  /** Undefined: a later reading has begun, whose answer counts. Throws what reading throws. */
  async latest(): Promise<T | undefined> {
    this.#begun += 1;
    const own = this.#begun;
    for (;;) {
      const before = this.#changes;
      const answer = await this.#read();
      if (own !== this.#begun) return undefined;
      if (before === this.#changes) return answer;
    }
  }
}
