import type { BufferBudget } from "../admission/budget.ts";
import type { AnswerFormat } from "./answer-format.ts";
import type { AnswerSink } from "./answer.ts";
import type { ModelRename } from "./rename.ts";

/** Who sent the request. */
export interface Sender {
  onFirstByte(): void;
  onByte(): void;
  /**
   * The engine has taken the request, which is not sent again. `isUnused`: nobody holds its body any more, not even a
   * socket.
   */
  onBodyDone(isUnused: boolean): void;
  /** The request never reached the engine. True when it is sent once more, by another relay. */
  onUnsent(): boolean;
  /** The engine is done with it, one way or the other. Called once. */
  onSettled(): void;
}

export interface RelayOptions {
  readonly sender: Sender;
  readonly sink: AnswerSink;
  readonly rename: ModelRename;
  readonly format: AnswerFormat;
  /** The client's body: when an engine refuses it, whether it was JSON at all decides whose fault that is. */
  readonly body: Buffer | undefined;
  /** What is kept of answers is counted there. */
  readonly budget: BufferBudget;
}
