import type { Logger } from "pino";

/** Logs the problems of manifests once: a warning when one appears, a line when it is gone. */
export class DeduplicatedLog {
  readonly #log: Logger;
  readonly #logged = new Map<string, ReadonlySet<string>>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** The present problems of `topic`; problems that were logged before and still hold are not logged again. */
  report(topic: string, problems: readonly string[]): void {
    const before = this.#logged.get(topic) ?? new Set();
    const now = new Set(problems);
    for (const problem of now) if (!before.has(problem)) this.#log.warn({ topic }, problem);
    for (const problem of before) if (!now.has(problem)) this.#log.info({ topic }, `fixed: ${problem}`);
    if (now.size === 0) this.#logged.delete(topic);
    else this.#logged.set(topic, now);
  }
}
