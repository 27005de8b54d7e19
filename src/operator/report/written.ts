import type { Logger } from "pino";
import { isNoSpace } from "../../lib/disk-space.ts";
import { errorMessage } from "../../lib/error-code.ts";
import type { PublishedSlot } from "../../api/status.ts";
import { isSameProcess } from "../../api/process-ref.ts";
import type { Publisher, SourceProblem } from "../../store/store.ts";

/** How long health reports deleted files: they are written again after a second. */
const deletedMs = 60_000;

/**
 * The files of slots for gateways, beside the operator's own memory: a failed write, as on a full disk, does not keep
 * the operator from acting and is tried again; a deleted file is written again.
 */
export class PublishedWriter {
  readonly #publisher: Publisher;
  readonly #log: Logger;
  /** Slots whose newest status is not on disk, and why. */
  readonly #failing = new Map<string, string>();
  #deleted: { readonly count: number; readonly atMs: number } | undefined;

  constructor(publisher: Publisher, log: Logger) {
    this.#publisher = publisher;
    this.#log = log;
  }

  /** Gateways cannot read the last published state. */
  isBehind(slot: string): boolean {
    return this.#failing.has(slot);
  }

  /** Never rejects. `before` is the state that gateways may still read where the write fails. */
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

  /** Slots among the given ones whose files are gone. They count as behind from now on. */
  markDeleted(slots: Iterable<string>): readonly string[] {
    const gone = this.#publisher.missingSlots(slots);
    const deleted = gone.filter((name) => !this.#failing.has(name));
    for (const name of deleted) this.#failing.set(name, "it was deleted");
    if (deleted.length > 0) {
      this.#deleted = { count: deleted.length, atMs: performance.now() };
      this.#log.warn(
        { slots: deleted },
        `the state of ${deleted.join(", ")} was deleted while the operator runs; writing it again`,
      );
    }
    return gone;
  }

  /** For health, the log and `berth status`. */
  problems(): readonly SourceProblem[] {
    const { place } = this.#publisher;
    const problems: SourceProblem[] = [];
    const failing = [...this.#failing];
    const [first] = failing;
    if (first !== undefined) {
      const names = failing.map(([name]) => name).join(", ");
      const message = `the status of ${names} cannot be written in ${place}: ${first[1]}`;
      problems.push({ reason: "StatusNotWritten", message });
    }
    if (this.#deleted !== undefined && performance.now() - this.#deleted.atMs < deletedMs) {
      const message = `the state of ${this.#deleted.count} slots in ${place} was deleted while the operator runs, and is written again`;
      problems.push({ reason: "StateDeleted", message });
    }
    return problems;
  }

  /**
   * On a full disk gateways get the part of the status with which they serve requests. Where even that does not fit, the
   * file is removed if it names an engine that is gone: that frees its blocks, and requests wait. Rejects unless the whole
   * status is written.
   */
  async #writeOrHide(next: PublishedSlot, before: PublishedSlot | undefined): Promise<void> {
    try {
      await this.#publisher.writeSlot(next);
    } catch (error) {
      const isFull = isNoSpace(error);
      const part = isFull ? servingPart(next) : next;
      try {
        if (!isFull) throw error;
        await this.#publisher.writeSlot(part);
      } catch {
        if (!misleads(before, next)) throw error;
        await this.#publisher.hideSlot(next.name);
        await this.#publisher.writeSlot(part);
      }
      if (isFull) throw error;
    }
  }
}

/** The number of transitions in a status that must be small: those that led to its state. */
const lastTransitions = 3;

/**
 * Without most of what only people read, and what only the engine's start needs. It has no `file`, so that no operator
 * takes this spec for the manifest's.
 */
function servingPart({ file: _file, ...slot }: PublishedSlot): PublishedSlot {
  const { compute: _compute, fit: _fit, memory: _memory, ...status } = slot.status;
  return {
    ...slot,
    spec: { ...slot.spec, env: {}, args: [] },
    status: { ...status, decisions: {}, transitions: status.transitions.slice(-lastTransitions) },
    plan: { ...slot.plan, steps: [] },
  };
}

/** With `before`, a gateway would send to a process that must get no requests. */
function misleads(before: PublishedSlot | undefined, next: PublishedSlot): boolean {
  const now = next.status.processes;
  return (
    before?.status.processes.some(
      (known) =>
        known.isReady &&
        !now.some(
          (process) =>
            process.isReady &&
            isSameProcess(process, known) &&
            process.host === known.host &&
            process.port === known.port,
        ),
    ) === true
  );
}
