import { largest, type Amounts } from "./amounts.ts";
import type { ReturnCost } from "./return-cost.ts";

/** The facts of one slot of a group for a grant. Times are milliseconds of a monotonic clock. */
export interface Member {
  readonly name: string;
  /** The slot's part of the group's budget while it is loaded. */
  readonly needs: Amounts;
  /** The need is unknown: the slot takes the whole budget. */
  readonly isUnknown?: boolean;
  /** The member's plan would start it now if it had a place. */
  readonly isRequesting: boolean;
  /** The slot requests a place only because it was used a short time ago: its client has left. */
  readonly isUnattended?: boolean;
  /** A process of the slot runs, or is being started or stopped: the slot takes a place, granted or not. */
  readonly isPresent: boolean;
  /** The slot answers requests; false while it loads. */
  readonly isReady: boolean;
  /** The slot is being preempted, and gateways know. */
  readonly isLeaving: boolean;
  /** Requests are in flight, or wait for it. */
  readonly isBusy: boolean;
  /** Always loaded: it is never preempted. */
  readonly isAlways: boolean;
  readonly isPinned: boolean;
  /** Slots with a lower value are preempted first. */
  readonly priority: number;
  /** The time since its last use. */
  readonly idleMs: number;
  /** A load is given up after this time. */
  readonly startupSeconds?: number;
  readonly cost?: ReturnCost;
  /** The need of the engine by which a loaded slot's engine is to be replaced, as after a swap of its model. */
  readonly next?: NextNeed;
}

export interface NextNeed {
  /** Equal for needs that are equal. */
  readonly key: string;
  readonly needs: Amounts;
  /** Nothing is known of the need: it takes the whole budget. */
  readonly isUnknown?: boolean;
}

/** The slot as it counts once the memory of its next engine is granted: both needs, for the engines follow each other. */
export function grown(member: Member): Member {
  const { next } = member;
  if (next === undefined) return member;
  return { ...member, needs: largest(member.needs, next.needs), isUnknown: next.isUnknown === true };
}

/** Whether another slot may ever take its place. */
export function isMovable({ isPinned, isAlways }: Member): boolean {
  return !isPinned && !isAlways;
}
