import { isRefusal } from "../../engines/engine.ts";
import type { SlotInput } from "../plan/input.ts";
import { notFound } from "../plan/preparing.ts";

/**
 * How long the Model that a slot names may still be on its way. Files of one commit, and objects of one `kubectl apply`, are
 * read by watches of their own: the slot may be here 0.1 s before its model.
 */
const arrivalMs = 500;

/** Since when slots have named models that nobody knows, by slot. */
export class MissingModels {
  readonly #since = new Map<string, { readonly specHash: string; readonly elapsedMs: number }>();
  #hasStarted = false;

  /**
   * Every slot has been reconciled once, by all that was there at the operator's start. Before, no model is waited for: a
   * slot must have a status once the operator says that it is ready.
   */
  started(): void {
    this.#hasStarted = true;
  }

  /** A later slot of that name is another one. */
  forget(name: string): void {
    this.#since.delete(name);
  }

  /** Milliseconds for which the slot is not yet said to name an unknown model. */
  waitMs({ name, specHash, workloads, unknownRefs, unprepared }: SlotInput, elapsedMs: number): number {
    const isMissing =
      (isRefusal(workloads) && workloads.reason === notFound) || (unknownRefs !== undefined && unknownRefs.length > 0);
    // A model that is being pulled is here a moment after its pull has ended.
    if (!isMissing || unprepared !== undefined) {
      this.#since.delete(name);
      return 0;
    }
    if (!this.#hasStarted) return 0;
    const known = this.#since.get(name);
    if (known?.specHash === specHash) return Math.max(0, known.elapsedMs + arrivalMs - elapsedMs);
    this.#since.set(name, { specHash, elapsedMs });
    return arrivalMs;
  }
}
