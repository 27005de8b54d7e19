import type { Logger } from "pino";

/** What is wrong with manifests, in the log once: a warning when it appears, a line when it is gone. */
export class Complaints {
  readonly #log: Logger;
  readonly #told = new Map<string, ReadonlySet<string>>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Everything that is wrong with `topic` now; what was told before and still holds is not told again. */
  tell(topic: string, problems: readonly string[]): void {
    const before = this.#told.get(topic) ?? new Set();
    const now = new Set(problems);
    for (const problem of now) if (!before.has(problem)) this.#log.warn({ topic }, problem);
    for (const problem of before) if (!now.has(problem)) this.#log.info({ topic }, `fixed: ${problem}`);
    if (now.size === 0) this.#told.delete(topic);
    else this.#told.set(topic, now);
  }
}
