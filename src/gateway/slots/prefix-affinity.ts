/** The limit of remembered conversations; the one with the oldest request is forgotten first. */
const mostPrompts = 4096;

/**
 * The backend that has seen a prompt last, so that the next turn of a conversation reaches the engine that still has
 * the earlier ones in its cache. Only whole prompts are remembered, never their beginnings: many conversations may
 * share one system prompt, which must not send all of them to one engine.
 */
export class PrefixAffinity<Backend> {
  readonly #backends = new Map<number, Backend>();
  readonly #limit: number;

  constructor(limit = mostPrompts) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#backends.size;
  }

  /** The backend that has seen the longest of these prefixes as a whole prompt. `hashes` come from `prefixHashes`. */
  find(hashes: readonly number[]): Backend | undefined {
    for (let index = hashes.length - 1; index >= 0; index -= 1) {
      const backend = this.#backends.get(hashes[index] ?? 0);
      if (backend !== undefined) return backend;
    }
    return undefined;
  }

  /** The backend gets the whole of that prompt now. */
  note(hashes: readonly number[], backend: Backend): void {
    const whole = hashes.at(-1);
    if (whole === undefined) return;
    this.#backends.delete(whole);
    this.#backends.set(whole, backend);
    if (this.#backends.size <= this.#limit) return;
    const [oldest] = this.#backends.keys();
    if (oldest !== undefined) this.#backends.delete(oldest);
  }

  /** The backend is gone, and its cache with it. */
  forget(backend: Backend): void {
    for (const [hash, known] of this.#backends) if (known === backend) this.#backends.delete(hash);
  }
}
