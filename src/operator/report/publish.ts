import { isDeepStrictEqual } from "node:util";
import { canMove, type SlotState } from "../../api/states.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { IllegalTransitions } from "./illegal-transitions.ts";
import type { SlotInput } from "../plan/input.ts";
import type { Outcome } from "./outcome.ts";
import { summarise } from "./summarise.ts";
import type { Decision } from "../plan/decision.ts";
import type { Dependencies } from "../dependencies.ts";

export interface PublishOptions {
  /** Called with every written status, e.g. for metrics. */
  readonly onPublished: (after: PublishedSlot, before: PublishedSlot | undefined) => void;
  readonly illegalTransitions: Pick<IllegalTransitions, "record">;
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
      if (before !== undefined) await dependencies.publisher.deleteSlot(input.name);
    } catch (error) {
      if (before !== undefined) dependencies.published.set(input.name, before);
      throw error;
    }
    dependencies.written.forget(input.name);
    return undefined;
  }
  const from = before?.status.state ?? "offline";
  if (!canMove(from, decision.state)) {
    options.illegalTransitions.record({ slot: input.name, from, to: decision.state, reason: decision.reason });
    // Engines started now are counted with the decided state.
    const between = { ...outcome, started: [] };
    const error = await publish(dependencies, input, illegalTransition(from, decision), between, options);
    return await publish(dependencies, { ...input, before: withErrorOf(before, error) }, decision, outcome, options);
  }
  const after = summarise(input, decision, outcome, dependencies.backoff);
  if (before !== undefined && isDeepStrictEqual(after, before)) {
    if (dependencies.written.isBehind(input.name)) await dependencies.written.write(before, undefined);
    return before;
  }
  const next: PublishedSlot = { ...after, revision: (before?.revision ?? 0) + 1 };
  // Also where it cannot be written: decisions use the state in memory.
  await dependencies.written.write(next, before);
  dependencies.published.set(input.name, next);
  options.onPublished(next, before);
  return next;
}

/**
 * The state between two that may not follow each other. Every state may become `error`, and `error` may become every
 * state that the operator decides (a test checks the table), so the decided state follows at once. Keeping the earlier
 * state instead would publish an engine that may be gone.
 */
function illegalTransition(from: SlotState, { state, message, steps }: Decision): Decision {
  return {
    state: "error",
    conditionSet: "retrying",
    reason: "IllegalTransition",
    message: `${from} may not become ${state} (${message}): a fault of the operator, which goes on with ${state}`,
    steps,
  };
}

/** The engine has not failed: its own last error stays, since later decisions use its time. */
function withErrorOf(before: PublishedSlot | undefined, now: PublishedSlot | undefined): PublishedSlot | undefined {
  if (now === undefined) return undefined;
  const { lastError: _between, ...status } = now.status;
  const lastError = before?.status.lastError;
  return { ...now, status: { ...status, ...(lastError === undefined ? {} : { lastError }) } };
}
