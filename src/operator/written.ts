import { join } from "node:path";
import type { Logger } from "pino";
import { errorMessage } from "../lib/error-code.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { Publisher, SourceProblem } from "../store/store.ts";

/** How long health tells of files that somebody deleted: they are there again after a second. */
const deletedMs = 60_000;

/**
 * What gateways can read of the state of slots, beside what this operator knows: a write that fails, as on a full disk,
 * keeps no engine from being acted on and is tried again; a file that somebody deletes is written again.
 */
export class Written {
  readonly #publisher: Publisher;
  readonly #log: Logger;
  /** Slots whose newest status is not on disk, and why. */
  readonly #failing = new Map<string, string>();
  #deleted: { readonly count: number; readonly atMs: number } | undefined;

  constructor(publisher: Publisher, log: Logger) {
    this.#publisher = publisher;
    this.#log = log;
  }

  /** What was published last is not what gateways can read. */
  isBehind(slot: string): boolean {
    return this.#failing.has(slot);
  }

  /** Never rejects. `before` is what gateways may still read where the write fails. */
  async write(next: PublishedSlot, before: PublishedSlot | undefined): Promise<void> {
    const { name } = next;
    try {
      await this.#writeOrHide(next, before);
      if (this.#failing.delete(name)) this.#log.info({ slot: name }, `${name}: its status is written again`);
    } catch (error) {
      if (!this.#failing.has(name))
        this.#log.error(
          { slot: name, err: error },
          `${name}: its status cannot be written; its engine is kept all the same`,
        );
      this.#failing.set(name, errorMessage(error));
    }
  }

  forget(slot: string): void {
    this.#failing.delete(slot);
  }

  /** Slots among those given whose files are gone. They count as behind from now on. */
  missing(slots: Iterable<string>): readonly string[] {
    const gone = this.#publisher.missingSlots(slots);
    const news = gone.filter((name) => !this.#failing.has(name));
    for (const name of news) this.#failing.set(name, "its file was deleted");
    if (news.length > 0) {
      this.#deleted = { count: news.length, atMs: performance.now() };
      this.#log.warn(
        { slots: news },
        `the state of ${news.join(", ")} was deleted while the operator runs; writing it again`,
      );
    }
    return gone;
  }

  /** For health, the log and `berth status`. */
  problems(stateDir: string): readonly SourceProblem[] {
    const problems: SourceProblem[] = [];
    const failing = [...this.#failing];
    const [first] = failing;
    if (first !== undefined) {
      const names = failing.map(([name]) => name).join(", ");
      const message = `the status of ${names} cannot be written in ${stateDir}: ${first[1]}`;
      problems.push({ reason: "StatusNotWritten", message });
    }
    if (this.#deleted !== undefined && performance.now() - this.#deleted.atMs < deletedMs) {
      const message = `${this.#deleted.count} files of ${join(stateDir, "slots")} were deleted while the operator runs, and are written again`;
      problems.push({ reason: "StateDeleted", message });
    }
    return problems;
  }

  /** A gateway must not go on with an engine that is gone: what cannot be replaced is taken away, which frees its blocks. */
  async #writeOrHide(next: PublishedSlot, before: PublishedSlot | undefined): Promise<void> {
    try {
      await this.#publisher.writeSlot(next);
    } catch (error) {
      if (!misleads(before, next)) throw error;
      await this.#publisher.deleteSlot(next.name);
      await this.#publisher.writeSlot(next);
    }
  }
}

/** Whoever goes by `before` sends to a process that is not to be sent to. */
function misleads(before: PublishedSlot | undefined, next: PublishedSlot): boolean {
  const now = next.status.processes;
  return (
    before?.status.processes.some(
      ({ role, port, isReady }) =>
        isReady && !now.some((process) => process.isReady && process.role === role && process.port === port),
    ) === true
  );
}
