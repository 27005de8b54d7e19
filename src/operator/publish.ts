import { isDeepStrictEqual } from "node:util";
import { canMove, type SlotState } from "../api/states.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { IllegalMoves } from "./illegal-moves.ts";
import type { SlotInput } from "./input.ts";
import { summarise, type Outcome } from "./summarise.ts";
import type { Verdict } from "./verdict.ts";
import type { World } from "./world.ts";

export interface PublishOptions {
  /** Hears of every status that was written, e.g. for metrics. */
  readonly onPublished: (after: PublishedSlot, before: PublishedSlot | undefined) => void;
  readonly illegalMoves: Pick<IllegalMoves, "note">;
}

/** Writes the status once, and only when it differs. Returns what is published now. */
export async function publish(
  world: World,
  input: SlotInput,
  verdict: Verdict,
  outcome: Outcome,
  options: PublishOptions,
): Promise<PublishedSlot | undefined> {
  const { before } = input;
  if (verdict.isDeleted === true) {
    // First: a file that goes while it counts as published would be written again.
    world.published.delete(input.name);
    try {
      if (before !== undefined) await world.publisher.deleteSlot(input.name);
    } catch (error) {
      if (before !== undefined) world.published.set(input.name, before);
      throw error;
    }
    world.written.forget(input.name);
    return undefined;
  }
  const from = before?.status.state ?? "offline";
  if (!canMove(from, verdict.state)) {
    options.illegalMoves.note({ slot: input.name, from, to: verdict.state, reason: verdict.reason });
    // Engines started now are counted with the state that was decided.
    const between = { ...outcome, started: 0 };
    const error = await publish(world, input, illegalMove(from, verdict), between, options);
    return await publish(world, { ...input, before: withErrorOf(before, error) }, verdict, outcome, options);
  }
  const after = summarise(input, verdict, outcome, world.backoff);
  if (before !== undefined && isDeepStrictEqual(after, before)) {
    if (world.written.isBehind(input.name)) await world.written.write(before, undefined);
    return before;
  }
  const next: PublishedSlot = { ...after, revision: (before?.revision ?? 0) + 1 };
  // Whether it can be written or not: an engine is acted on by what is known here.
  await world.written.write(next, before);
  world.published.set(input.name, next);
  options.onPublished(next, before);
  return next;
}

/**
 * The state between two that may not follow each other. Every state may become `error`, and `error` may become every
 * state that the operator decides (a test walks the table), so the decided state follows at once. To keep the earlier
 * state instead would tell gateways of an engine that may be gone.
 */
function illegalMove(from: SlotState, { state, message, steps }: Verdict): Verdict {
  return {
    state: "error",
    row: "retrying",
    reason: "IllegalTransition",
    message: `${from} may not become ${state} (${message}): a fault of the operator, which goes on with ${state}`,
    steps,
  };
}

/** The engine has not failed: its own last error stays, since later decisions go by the time of that one. */
function withErrorOf(before: PublishedSlot | undefined, now: PublishedSlot | undefined): PublishedSlot | undefined {
  if (now === undefined) return undefined;
  const { lastError: _between, ...status } = now.status;
  const lastError = before?.status.lastError;
  return { ...now, status: { ...status, ...(lastError === undefined ? {} : { lastError }) } };
}
