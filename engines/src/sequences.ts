import type { LlamaContext, LlamaContextSequence, Token } from "node-llama-cpp";

/** Lends the context's sequences, first come first served. */
export class Sequences {
  readonly #free: LlamaContextSequence[];
  readonly #waiting: ((sequence: LlamaContextSequence) => void)[] = [];

  constructor(context: LlamaContext, count: number) {
    this.#free = Array.from({ length: count }, () => context.getSequence());
  }

  /**
   * Waits for a sequence, preferably the one that has read most of `prompt` already; rejects when `signal` aborts.
   * Disposing the lease returns it.
   */
  async borrow(
    prompt: Token[],
    signal: AbortSignal,
  ): Promise<Disposable & { readonly sequence: LlamaContextSequence }> {
    signal.throwIfAborted();
    const free = this.#take(prompt);
    const sequence =
      free ??
      (await new Promise<LlamaContextSequence>((resolve, reject) => {
        const taker = (given: LlamaContextSequence): void => {
          signal.removeEventListener("abort", leave);
          resolve(given);
        };
        const leave = (): void => {
          this.#waiting.splice(this.#waiting.indexOf(taker), 1);
          reject(new Error("the client left"));
        };
        signal.addEventListener("abort", leave, { once: true });
        this.#waiting.push(taker);
      }));
    return {
      sequence,
      [Symbol.dispose]: () => {
        const next = this.#waiting.shift();
        if (next === undefined) this.#free.push(sequence);
        else next(sequence);
      },
    };
  }
  #take(prompt: Token[]): LlamaContextSequence | undefined {
    const known = (sequence: LlamaContextSequence): number => sequence.compareContextTokens(prompt).firstDifferentIndex;
    // Where none has read more, the one with the shortest other chat.
    const [best] = this.#free.toSorted((a, b) => known(b) - known(a) || a.nextTokenIndex - b.nextTokenIndex);
    if (best !== undefined) this.#free.splice(this.#free.indexOf(best), 1);
    return best;
  }
}
