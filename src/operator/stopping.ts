import { join } from "node:path";
import { nextConditions, type ConditionClaim } from "../api/conditions.ts";
import { knownPart } from "../api/known-part.ts";
import { publishedOperatorSchema, transitionLimit, type PublishedSlot } from "../api/status.ts";
import { parseJson } from "../lib/json.ts";
import { readText } from "../lib/read-text.ts";
import type { Runtime } from "../runtimes/runtime.ts";
import type { Publisher } from "../store/store.ts";
import { claimsOf } from "./verdict.ts";

export interface StopOptions {
  readonly stopSeconds: number;
  /** Aborting kills at once. */
  readonly signal?: AbortSignal;
}

export interface Haste extends StopOptions {
  /** How long a silent runtime is waited for: what else runs must end in time too. */
  readonly lookMs: number;
}

/**
 * Ends every engine under our label, and publishes that they are leaving, then that they are offline. Returns the
 * slots that had one. What fails keeps nothing else from being ended; then it rejects with the first failure.
 */
export async function stopEngines(
  runtime: Runtime,
  publisher: Publisher,
  published: Iterable<PublishedSlot>,
  options: StopOptions,
): Promise<readonly string[]> {
  const slots = await runtime.list();
  // A runtime that is silent lists nothing: what was last seen in it must be asked after.
  const ending = new Set(slots);
  const leaving: PublishedSlot[] = [];
  const failures: unknown[] = [];
  const tell = async (slot: PublishedSlot): Promise<void> => {
    await publisher.writeSlot(slot).catch((error: unknown) => failures.push(error));
  };
  for (const slot of published) {
    if (slot.status.processes.length === 0 && slot.status.state === "offline") continue;
    const now = slot.status.state === "offline" ? slot : leavingSlot(slot, told);
    if (now !== slot) await tell(now);
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
  for (const slot of leaving) if (!left.has(slot.name)) await tell(stoppedSlot(slot, told));
  if (failures.length > 0) throw failures[0];
  return slots;
}

/**
 * What earlier operators published, as it counts now: after a reboot no engine runs, and what was published about
 * processes is no evidence of a crash.
 */
export async function readPublished(
  publisher: Publisher,
  stateDir: string,
  bootId: string,
): Promise<Map<string, PublishedSlot>> {
  const slots = await publisher.readSlots();
  const sameBoot = (await previousBoot(stateDir)) === bootId;
  return new Map(slots.map((slot) => [slot.name, sameBoot ? slot : stoppedSlot(slot, restarted)]));
}

async function previousBoot(stateDir: string): Promise<string | undefined> {
  const text = await readText(join(stateDir, "operator.json")).catch(() => undefined);
  return knownPart(publishedOperatorSchema, parseJson(text ?? ""))?.bootId;
}

const reason = "Stopped";
/** Why the engines of a slot have ended. */
const told = "the operator was told to stop its engines";
const restarted = "the machine was restarted";

/** While its engine is being ended: nothing may be sent to it any more. */
function leavingSlot(slot: PublishedSlot, message: string): PublishedSlot {
  const { readySince: _ready, nextRetryAt: _next, progress: _progress, ...status } = slot.status;
  const row = { row: "unloading", reason, message, state: "unloading" } as const;
  return {
    ...moved({ ...slot, status }, "unloading", claimsOf(row), message),
    plan: { reason, message, steps: slot.plan.steps.filter((step) => step.do === "stop") },
  };
}

/** The slot as it is once its engines have ended, and none of them by a failure. */
function stoppedSlot(slot: PublishedSlot, message: string): PublishedSlot {
  const leaving = slot.status.state === "offline" ? slot : leavingSlot(slot, message);
  // It is not loaded again for its last use.
  const { endpoint: _endpoint, workloadHash: _hash, idleSince: _idle, ...status } = leaving.status;
  const claims: ConditionClaim[] = [
    { type: "Ready", status: "Unknown", reason, message },
    { type: "Available", status: "False", reason, message },
  ];
  // Whoever starts it all anew has had the chance to mend what failed: a driver, a device, a daemon.
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
