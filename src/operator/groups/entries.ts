import type { LeavingCause } from "../plan/grant.ts";
import type { Member } from "./member.ts";

/** The ledger's record of one slot between two admissions. */
export interface Entry {
  readonly state: "granted" | "leaving" | "waiting";
  /** Since when it has that state. */
  readonly sinceMs: number;
  /** Since when it has been ready without interruption. */
  readonly readySinceMs?: number;
  /** The reason for which a leaving slot leaves. */
  readonly cause?: LeavingCause;
  /** Whether a loaded slot whose engine is to be replaced has the memory of the next engine. */
  readonly next?: { readonly state: "granted" | "waiting"; readonly sinceMs: number };
}

/** Waiting slots, for a place or for the memory of their next engine, are in the order of their requests. */
export type Entries = ReadonlyMap<string, Entry>;

/** The record after a decision; a state that stays keeps its time. */
export function entryOf(
  member: Member,
  { state, next }: { readonly state: Entry["state"]; readonly next: "granted" | "waiting" | undefined },
  before: Entries,
  nowMs: number,
): Entry {
  const known = before.get(member.name);
  return {
    state,
    sinceMs: known?.state === state ? known.sinceMs : nowMs,
    ...(member.isReady ? { readySinceMs: known?.readySinceMs ?? nowMs } : {}),
    ...(next === undefined
      ? {}
      : { next: { state: next, sinceMs: known?.next?.state === next ? known.next.sinceMs : nowMs } }),
  };
}

/** How long the slot has waited, for a place or for the memory of its next engine. */
export function waitedMs({ name, isPresent }: Member, before: Entries, nowMs: number): number {
  const entry = before.get(name);
  const waiting = isPresent ? entry?.next : entry;
  return waiting?.state === "waiting" ? nowMs - waiting.sinceMs : 0;
}
