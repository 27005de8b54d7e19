import type { BufferBudget } from "../slots/budget.ts";
import type { Usage } from "./answer-usage.ts";
import type { AnswerFormat } from "./answer-format.ts";
import type { AnswerSink } from "./answer.ts";
import type { ModelRename } from "./rename.ts";

/** The object that sent the request. */
export interface Sender {
  onFirstByte(): void;
  onByte(): void;
  /** An event stream has brought tokens. */
  onTokens(count: number): void;
  /**
   * The engine has the request, which is not sent again. `isUnused`: nothing refers to its body any more, not even a
   * socket.
   */
  onBodyDone(isUnused: boolean): void;
  /** There is no whole answer. True when the request, which reached no engine, is sent once more, by another relay. */
  onFailed(error: Error): boolean;
  /** The engine is done with it, one way or the other. Called once. `usage`: the engine's own count, if it sent one. */
  onSettled(usage: Readonly<Usage> | undefined): void;
}

export interface RelayOptions {
  readonly sender: Sender;
  readonly sink: AnswerSink;
  readonly rename: ModelRename;
  readonly format: AnswerFormat;
  /** The client's body: when an engine refuses it, invalid JSON decides whose fault that is. */
  readonly body: Buffer | undefined;
  /** The client was promised a stream where the engine can stream. */
  readonly isStream: boolean;
  /** Buffered answers are counted here. */
  readonly budget: BufferBudget;
  /** An error of the engine that takes longer is reported with the bytes so far; 10 s where absent. */
  readonly errorTimeoutMs?: number;
}
