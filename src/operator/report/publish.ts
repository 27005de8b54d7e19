import { isDeepStrictEqual } from "node:util";
import type { PublishedSlot } from "../../api/status.ts";
import type { SlotInput } from "../plan/input.ts";
import type { Outcome } from "./outcome.ts";
import { summarise } from "./summarise.ts";
import type { Decision } from "../plan/decision.ts";
import type { Dependencies } from "../dependencies.ts";

export interface PublishOptions {
  /** Called with every written status, e.g. for metrics. */
  readonly onPublished: (after: PublishedSlot, before: PublishedSlot | undefined) => void;
  /** Tells gateways that there is one slot less before its status goes: else they would wait for that status. */
  readonly onDeleting: () => Promise<void>;
}

/** Writes the status once, and only when it differs. Returns the published state. */
export async function publish(
  dependencies: Pick<Dependencies, "published" | "publisher" | "written" | "backoff">,
  input: SlotInput,
  decision: Decision,
  outcome: Outcome,
  options: PublishOptions,
): Promise<PublishedSlot | undefined> {
  const { before } = input;
  if (decision.isDeleted === true) {
    // First: a file that is removed while it counts as published would be written again.
    dependencies.published.delete(input.name);
    try {
      if (before !== undefined) {
        await options.onDeleting();
        await dependencies.publisher.deleteSlot(input.name);
      }
    } catch (error) {
      if (before !== undefined) dependencies.published.set(input.name, before);
      throw error;
    }
    dependencies.written.forget(input.name);
    return undefined;
  }
  const after = summarise(input, decision, outcome, dependencies.backoff);
  if (before !== undefined && isDeepStrictEqual(after, before)) return before;
  const next: PublishedSlot = { ...after, revision: (before?.revision ?? 0) + 1 };
  // The state in memory counts also where it cannot be written: the next reconcile writes it before it decides.
  await dependencies.written.write(next);
  dependencies.published.set(input.name, next);
  options.onPublished(next, before);
  return next;
}
