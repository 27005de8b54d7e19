/** Answers that are remembered: a short one, as for the title of a chat, does not hide a long conversation. */
const rememberedAnswers = 8;
/** The time of a shorter prompt says little about the speed of reading. */
const leastPromptTokens = 128;
const leastPromptMs = 1;

/** Tokens as an engine counted them in one answer, and the time that it took to read those that were not in its cache. */
export interface AnswerTokens {
  readonly input: number | undefined;
  readonly promptTokens?: number;
  readonly promptMs?: number;
}

/** The tokens of one conversation that an engine has in its cache, and how fast it has read prompts. */
export interface ContextFigure {
  readonly tokens: number;
  readonly tokensPerSecond?: number;
}

/** The tokens in an engine's cache, by the counts in its answers: the longest of the last few conversations. */
export class CachedContext {
  /** A ring: the next answer replaces the oldest. */
  readonly #answers: number[] = [];
  #next = 0;
  #tokensPerSecond: number | undefined;

  /** An answer without generated tokens, as of embeddings, leaves nothing in the cache that a later request could use. */
  answered(usage: AnswerTokens | undefined, tokensOut: number | undefined): void {
    const { input, promptTokens = 0, promptMs = 0 } = usage ?? {};
    if (input === undefined || tokensOut === undefined) return;
    this.#answers[this.#next] = input + tokensOut;
    this.#next = (this.#next + 1) % rememberedAnswers;
    if (promptTokens >= leastPromptTokens && promptMs >= leastPromptMs)
      this.#tokensPerSecond = (promptTokens * 1000) / promptMs;
  }

  get figure(): ContextFigure | undefined {
    if (this.#answers.length === 0) return undefined;
    const tokens = Math.max(...this.#answers);
    const rate = this.#tokensPerSecond;
    return { tokens, ...(rate === undefined ? {} : { tokensPerSecond: Math.max(1, Math.round(rate)) }) };
  }
}
