import { findCondition } from "../../api/conditions.ts";
import type { KnownSlot } from "../index.ts";

export interface WaitQuery {
  readonly wait?: "ready" | "settled" | undefined;
  /** Seconds. */
  readonly timeout: number;
}

/** Nothing is going on: it runs, it rests, or it waits for a person or for its next try. */
export function settled({ status }: KnownSlot): boolean {
  if (status === undefined) return false;
  if (status.state === "error") return true;
  const isWorking = findCondition(status.conditions, "Reconciling")?.status === "True";
  return !isWorking && !["pulling", "starting", "warming", "unloading"].includes(status.state);
}
