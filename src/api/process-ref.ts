import { processRoles, type ProcessRole } from "./names.ts";

/** Which process of a slot: `ordinal` counts the replicas of a role from 0, and is 0 where the role has no replicas. */
export interface ProcessRef {
  readonly role: ProcessRole;
  readonly ordinal: number;
}

/** A process of a named slot. */
export interface SlotProcess extends ProcessRef {
  readonly slot: string;
}

/**
 * Names the process within its slot: `main`, `main-1`, `rerank`. Records, logs, containers, leases and books of processes
 * use this name.
 */
export function processName({ role, ordinal }: ProcessRef): string {
  return ordinal === 0 ? role : `${role}-${ordinal}`;
}

/** Names the process among all slots: `primary/main`, `primary/main-1`. For memory and messages: files have names of their own. */
export function processKey(process: SlotProcess): string {
  return `${process.slot}/${processName(process)}`;
}

export function isSameProcess(one: ProcessRef, other: ProcessRef): boolean {
  return one.role === other.role && one.ordinal === other.ordinal;
}

/** The order in which processes are listed: by role, then by ordinal. */
export function compareProcesses(one: ProcessRef, other: ProcessRef): number {
  return processRoles.indexOf(one.role) - processRoles.indexOf(other.role) || one.ordinal - other.ordinal;
}

/** The ordinal in a label; undefined where it has none. */
export function readOrdinal(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) : undefined;
}
