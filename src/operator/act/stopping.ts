import { nextConditions, type ConditionClaim } from "../../api/conditions.ts";
import { endsWithBoot } from "../../api/engine-identity.ts";
import { transitionLimit, type PublishedSlot } from "../../api/status.ts";
import type { Runtimes } from "../../runtimes/runtime.ts";
import type { RuntimeSet } from "../../runtimes/set.ts";
import type { LeaderStore } from "../../store/opened-store.ts";
import type { Publisher } from "../../store/store.ts";
import { claimsOf } from "../plan/decision.ts";

export interface StopOptions {
  readonly stopSeconds: number;
  /** Aborting kills at once. */
  readonly signal?: AbortSignal;
}

export interface StopAllOptions extends StopOptions {
  /** How long an unreachable runtime is waited for: the other engines must end in time too. */
  readonly listTimeoutMs: number;
}

/**
 * Ends every engine with our label, and publishes them as unloading, then as offline. Returns the slots that had one. A
 * failure does not prevent ending the others; then it rejects with the first failure.
 */
export async function stopEngines(
  runtime: Runtimes,
  publisher: Publisher,
  published: Iterable<PublishedSlot>,
  options: StopOptions,
): Promise<readonly string[]> {
  const slots = await runtime.list();
  // An unreachable runtime lists nothing: its last known slots are ended by name.
  const ending = new Set(slots);
  const leaving: PublishedSlot[] = [];
  const failures: unknown[] = [];
  const publishSlot = async (slot: PublishedSlot): Promise<void> => {
    await publisher.writeSlot(slot).catch((error: unknown) => failures.push(error));
  };
  for (const slot of published) {
    if (slot.status.processes.length === 0 && slot.status.state === "offline") continue;
    const now = slot.status.state === "offline" ? slot : leavingSlot(slot, stoppedMessage);
    if (now !== slot) await publishSlot(now);
    if (slot.status.processes.length > 0) ending.add(slot.name);
    leaving.push(now);
  }
  const left = new Set<string>();
  await Promise.all(
    [...ending].map(async (slot) => {
      try {
        await runtime.remove(slot, undefined, options);
      } catch (error) {
        left.add(slot);
        failures.push(error);
      }
    }),
  );
  for (const slot of leaving) if (!left.has(slot.name)) await publishSlot(stoppedSlot(slot, stoppedMessage));
  if (failures.length > 0) throw failures[0];
  return slots;
}

/**
 * The state of earlier operators, corrected for now: a boot of this machine has ended its engines, and published
 * processes are no evidence of a crash. Engines of a runtime elsewhere run on, whichever machine the operator has moved
 * to.
 */
export function publishedBefore(
  { slots, boot }: Pick<LeaderStore["before"], "slots" | "boot">,
  runtime: Pick<RuntimeSet, "boot" | "kinds" | "traitsOf">,
): Map<string, PublishedSlot> {
  const hasEnded = (slot: PublishedSlot): boolean => boot !== runtime.boot && isEndedByBoot(slot, runtime);
  return new Map(slots.map((slot) => [slot.name, hasEnded(slot) ? stoppedSlot(slot, restarted) : slot]));
}

/** Whether none of the slot's engines outlives a boot of this machine; without engines, its runtime decides. */
function isEndedByBoot({ status }: PublishedSlot, runtime: Pick<RuntimeSet, "kinds" | "traitsOf">): boolean {
  const ofEngines = runtime.kinds.filter((kind) => {
    const identity = runtime.traitsOf(kind)?.identity;
    return identity !== undefined && status.processes.some((process) => process[identity] !== undefined);
  });
  const concerned = ofEngines.length > 0 ? ofEngines : runtime.kinds.filter((kind) => kind === status.runtime);
  return concerned.every((kind) => {
    const identity = runtime.traitsOf(kind)?.identity;
    return identity === undefined || endsWithBoot[identity];
  });
}

const reason = "Stopped";
/** The message of a slot whose engines were ended. */
const stoppedMessage = "the operator was stopped with its engines";
const restarted = "the machine was restarted";

/** While its engine is being ended: no request may be sent to it any more. */
function leavingSlot(slot: PublishedSlot, message: string): PublishedSlot {
  const { readySince: _ready, nextRetryAt: _next, progress: _progress, ...status } = slot.status;
  const decided = { severity: "leaving", isServed: false, reason, message, state: "unloading" } as const;
  return {
    ...moved({ ...slot, status }, "unloading", claimsOf(decided), message),
    plan: { reason, message, steps: slot.plan.steps.filter((step) => step.do === "stop") },
  };
}

/** The slot once its engines have ended, none of them by a failure. */
function stoppedSlot(slot: PublishedSlot, message: string): PublishedSlot {
  const leaving = slot.status.state === "offline" ? slot : leavingSlot(slot, message);
  // The last use of the slot does not load it again.
  const { endpoint: _endpoint, workloadHash: _hash, idleSince: _idle, ...running } = leaving.status;
  const { processFailures: _failures, ...status } = running;
  const claims: ConditionClaim[] = [
    { type: "Ready", status: "Unknown", reason, message },
    { type: "Available", status: "False", reason, message },
  ];
  // A person who starts everything again could have mended the failure: a driver, a device, a daemon.
  const empty = { ...status, processes: [], decisions: {}, failures: 0 };
  return { ...moved({ ...leaving, status: empty }, "offline", claims, message), plan: { reason, message, steps: [] } };
}

function moved(
  slot: PublishedSlot,
  to: "unloading" | "offline",
  claims: readonly ConditionClaim[],
  message: string,
): PublishedSlot {
  const { status } = slot;
  const now = new Date();
  const transition = { at: now.toISOString(), from: status.state, to, reason, message };
  return {
    ...slot,
    revision: slot.revision + 1,
    status: {
      ...status,
      state: to,
      conditions: nextConditions(status.conditions, claims, slot.generation, now),
      observedGeneration: slot.generation,
      processes: status.processes.map((process) => ({ ...process, isReady: false })),
      transitions:
        status.state === to ? status.transitions : [...status.transitions, transition].slice(-transitionLimit),
    },
  };
}
