/** Runs tasks one after the other in the order of the calls; a failed task does not stop the next. */
export class Serial {
  #last: Promise<unknown> = Promise.resolve();

  /** Resolves or rejects as `task` does. */
  run<T>(task: () => Promise<T>): Promise<T> {
    const next = this.#last.then(task, task);
    this.#last = next.catch(() => undefined);
    return next;
  }

  /** Resolves once all tasks so far have settled. */
  async settled(): Promise<void> {
    await this.#last;
  }
}
