/** The parts of a model's answer: text, reasoning, or calls of tools. */
export type Piece =
  | { readonly content: string }
  | { readonly reasoning: string }
  | { readonly call: { readonly index: number; readonly id: string; readonly name: string } }
  | { readonly arguments: { readonly index: number; readonly text: string } };

export interface Finished {
  readonly finishReason: "stop" | "length" | "tool_calls";
  /** The stop sequence that ended the answer. */
  readonly stop: string | undefined;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

export type Pieces = AsyncGenerator<Piece, Finished>;

/** A queue of pieces between a producer and a consumer; an error reaches the consumer after the last piece. */
export class PieceQueue {
  readonly #pieces: Piece[] = [];
  #end: { readonly error: unknown } | "done" | undefined;
  #wake: (() => void) | undefined;

  push(piece: Piece): void {
    this.#pieces.push(piece);
    this.#wake?.();
  }

  end(): void {
    this.#end ??= "done";
    this.#wake?.();
  }

  fail(error: unknown): void {
    this.#end ??= { error };
    this.#wake?.();
  }

  async *take(): AsyncGenerator<Piece, void> {
    for (;;) {
      const piece = this.#pieces.shift();
      if (piece !== undefined) yield piece;
      else if (this.#end === "done") return;
      else if (this.#end !== undefined) throw this.#end.error;
      else {
        await new Promise<void>((resolve) => (this.#wake = resolve));
        this.#wake = undefined;
      }
    }
  }
}
