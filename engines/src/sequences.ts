import type { LlamaContext, LlamaContextSequence } from "node-llama-cpp";

/** Lends the context's sequences, first come first served. */
export class Sequences {
  readonly #free: LlamaContextSequence[];
  readonly #waiting: ((sequence: LlamaContextSequence) => void)[] = [];

  constructor(context: LlamaContext, count: number) {
    this.#free = Array.from({ length: count }, () => context.getSequence());
  }

  /** Waits for a sequence; rejects when `signal` aborts meanwhile. Disposing the loan gives it back. */
  async borrow(signal: AbortSignal): Promise<Disposable & { readonly sequence: LlamaContextSequence }> {
    const free = this.#free.pop();
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
}
