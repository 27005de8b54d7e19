import { join } from "node:path";
import { readFile } from "node:fs/promises";
import { publishedOperatorSchema, type PublishedSlot } from "../api/status.ts";
import type { Runtime } from "../runtimes/runtime.ts";
import type { Publisher } from "../store/store.ts";

export interface StopOptions {
  readonly stopSeconds: number;
  /** Aborting kills at once. */
  readonly signal?: AbortSignal;
}

/** Ends every engine under our label, then publishes that they are offline. Returns the slots that had one. */
export async function stopEngines(
  runtime: Runtime,
  publisher: Publisher,
  published: Iterable<PublishedSlot>,
  options: StopOptions,
): Promise<readonly string[]> {
  const slots = await runtime.list();
  await Promise.all(slots.map((slot) => runtime.remove(slot, undefined, options)));
  for (const slot of published) {
    if (slot.status.processes.length > 0 || slot.status.state !== "offline")
      await publisher.writeSlot(stoppedSlot(slot));
  }
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
  return new Map(slots.map((slot) => [slot.name, sameBoot ? slot : stoppedSlot(slot)]));
}

async function previousBoot(stateDir: string): Promise<string | undefined> {
  try {
    const parsed = publishedOperatorSchema.safeParse(
      JSON.parse(await readFile(join(stateDir, "operator.json"), "utf8")),
    );
    return parsed.data?.bootId;
  } catch {
    return undefined;
  }
}

/** The slot as it is when everything was ended on purpose. */
function stoppedSlot(slot: PublishedSlot): PublishedSlot {
  const { status } = slot;
  const { readySince: _ready, endpoint: _endpoint, workloadHash: _hash, ...rest } = status;
  const now = new Date().toISOString();
  const message = "the operator was told to stop its engines";
  const { state } = status;
  const path: PublishedSlot["status"]["transitions"] =
    state === "offline"
      ? []
      : state === "unloading"
        ? [{ at: now, from: "unloading", to: "offline", reason: "Stopped", message }]
        : [
            { at: now, from: state, to: "unloading", reason: "Stopped", message },
            { at: now, from: "unloading", to: "offline", reason: "Stopped", message },
          ];
  return {
    ...slot,
    revision: slot.revision + 1,
    status: {
      ...rest,
      state: "offline",
      processes: [],
      decisions: {},
      conditions: status.conditions
        .filter(({ type }) => type === "Ready" || type === "Available")
        .map((condition) => ({
          ...condition,
          status: condition.type === "Ready" ? ("Unknown" as const) : ("False" as const),
          reason: "Stopped",
          message,
          lastTransitionTime:
            condition.status === "False" && condition.type === "Available" ? condition.lastTransitionTime : now,
        })),
      transitions: [...status.transitions, ...path].slice(-50),
    },
    plan: { reason: "Stopped", message, steps: [] },
  };
}
