import type { GroupStatus } from "../../api/group-status.ts";
import { admit, type Admission, type NextGrant } from "./admit.ts";
import type { GroupRules } from "./place.ts";
import type { Entries, Entry } from "./entries.ts";
import type { Member } from "./member.ts";
import type { Grant, LeavingCause } from "../plan/grant.ts";
import { needKey, type WantedFit } from "../plan/growth.ts";
import type { Occupancy, SlotMemories } from "../slot-memory.ts";

/** A slot got its place, after a wait, or must leave it. */
export type GroupTransition =
  | { readonly to: "granted"; readonly slot: string; readonly waitedMs: number }
  | { readonly to: "leaving"; readonly slot: string; readonly cause: LeavingCause };

interface Group {
  readonly entries: Entries;
  readonly grants: ReadonlyMap<string, Grant>;
  readonly nextGrants: ReadonlyMap<string, NextGrant>;
  readonly lentUntil?: string;
}

const nothing: Group = { entries: new Map(), grants: new Map(), nextGrants: new Map() };

/**
 * Places of groups: written by the reconciler of a group, read by the plans of its slots. After a restart of the operator
 * running slots have their places, and the others wait in the published order.
 */
export class GroupLedger {
  readonly #memories: Pick<SlotMemories, "of">;
  readonly #groups = new Map<string, Group>();
  /** By group: why nothing can be decided yet. */
  readonly #pending = new Map<string, string>();
  /** The status of each group, as it is published. */
  readonly #statuses = new Map<string, GroupStatus>();

  /** `before`: the groups as an earlier operator published them. */
  constructor(memories: Pick<SlotMemories, "of">, before: readonly GroupStatus[] = [], now = new Date(), nowMs = 0) {
    this.#memories = memories;
    for (const status of before) {
      const entries = status.members.flatMap((member) => restored(member, now, nowMs));
      this.#groups.set(status.name, { ...nothing, entries: new Map(entries) });
      this.#statuses.set(status.name, status);
    }
  }

  /** Records the last plan of the slot. */
  record(slot: string, occupancy: Occupancy, wanted?: WantedFit): void {
    Object.assign(this.#memories.of(slot), { occupancy, wanted, unplannedSinceMs: undefined });
  }

  /** The need of the engine that the slot would start, where the published one is another's. */
  wantedBy(slot: string): WantedFit | undefined {
    return this.#memories.of(slot).wanted;
  }

  /** Whether the slot has the memory that it wants. */
  wantedGrantOf(group: string, slot: string): Grant {
    const { wanted, occupancy } = this.#memories.of(slot);
    if (wanted === undefined || occupancy !== "present") return this.grantOf(group, slot);
    const next = this.#groups.get(group)?.nextGrants.get(slot);
    return next?.key === needKey(wanted) ? next.grant : this.#undecided(group);
  }

  /** How long a group has waited for the slot's first plan. */
  unplannedMs(slot: string, nowMs: number): number {
    const memory = this.#memories.of(slot);
    memory.unplannedSinceMs ??= nowMs;
    return nowMs - memory.unplannedSinceMs;
  }

  /** Undefined: this operator has made no plan for the slot yet. */
  occupancyOf(slot: string): Occupancy | undefined {
    return this.#memories.of(slot).occupancy;
  }

  /** Pending: nothing was decided about the slot yet. */
  grantOf(group: string, slot: string): Grant {
    return this.#groups.get(group)?.grants.get(slot) ?? this.#undecided(group);
  }

  /** The answer about the next engine of a loaded slot; undefined: its engine is not to be replaced. */
  nextGrantOf(group: string, slot: string): Grant | undefined {
    return this.#groups.get(group)?.nextGrants.get(slot)?.grant;
  }

  #undecided(group: string): Grant {
    return { state: "pending", message: this.#pending.get(group) ?? `group ${group} has not decided about it yet` };
  }

  /** Until when the group is lent; undefined: it is not. */
  lentUntil(group: string): string | undefined {
    return this.#groups.get(group)?.lentUntil;
  }

  /** Nothing can be decided yet: `message` says why. Returns whether that is new. */
  wait(group: string, message: string): boolean {
    const isNew = this.#pending.get(group) !== message;
    this.#pending.set(group, message);
    return isNew;
  }

  entriesOf(group: string): Entries {
    return this.#groups.get(group)?.entries ?? nothing.entries;
  }

  /** Decides which slots of the group may be loaded from now on. Returns the slots whose answer changed. */
  admit(
    group: string,
    members: readonly Member[],
    rules: GroupRules,
    nowMs: number,
  ): { readonly changed: readonly string[]; readonly transitions: readonly GroupTransition[] } & Pick<
    Admission,
    "requeueMs"
  > {
    const before = this.#groups.get(group) ?? nothing;
    this.#pending.delete(group);
    const { entries, grants, nextGrants, requeueMs } = admit(members, rules, before.entries, nowMs);
    const { lentUntil } = rules;
    this.#groups.set(group, { entries, grants, nextGrants, ...(lentUntil === undefined ? {} : { lentUntil }) });
    const answer = (of: Group, slot: string): string => JSON.stringify([of.grants.get(slot), of.nextGrants.get(slot)]);
    const now = { entries, grants, nextGrants };
    const changed = members.flatMap(({ name }) =>
      answer(before, name) === answer(now, name) && before.lentUntil === lentUntil ? [] : [name],
    );
    const transitions = [...entries].flatMap(([slot, entry]) =>
      transitionOf(slot, before.entries.get(slot), entry, nowMs),
    );
    return { changed, transitions, ...(requeueMs === undefined ? {} : { requeueMs }) };
  }

  /** Forgets a group that no slot names any more. Returns the slots that had an answer. */
  drop(group: string): readonly string[] {
    const { grants } = this.#groups.get(group) ?? nothing;
    this.#groups.delete(group);
    this.#pending.delete(group);
    this.#statuses.delete(group);
    return [...grants.keys()];
  }

  statusOf(group: string): GroupStatus | undefined {
    return this.#statuses.get(group);
  }

  recordStatus(status: GroupStatus): void {
    this.#statuses.set(status.name, status);
  }

  /** Every group's, by name. */
  statuses(): readonly GroupStatus[] {
    return [...this.#statuses.values()].toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }
}

/** A slot that waited, also for its next engine, keeps its turn; a slot that was ready keeps its time of residency. */
function restored(
  { slot, state, since, nextWaitsSince }: GroupStatus["members"][number],
  now: Date,
  nowMs: number,
): readonly (readonly [string, Entry])[] {
  const msOf = (time: string): number => nowMs - Math.max(0, now.getTime() - Date.parse(time));
  const sinceMs = msOf(since);
  if (state === "waiting") return [[slot, { state, sinceMs }]];
  if (state !== "loaded") return [];
  const next =
    nextWaitsSince === undefined ? {} : { next: { state: "waiting" as const, sinceMs: msOf(nextWaitsSince) } };
  return [[slot, { state: "granted", sinceMs, readySinceMs: sinceMs, ...next }]];
}

function transitionOf(slot: string, before: Entry | undefined, now: Entry, nowMs: number): readonly GroupTransition[] {
  if (before?.state === now.state) return [];
  if (now.state === "leaving") return [{ to: "leaving", slot, cause: now.cause ?? "idle" }];
  if (now.state !== "granted") return [];
  // A slot that is seen for the first time may have been loaded by an earlier operator.
  return [{ to: "granted", slot, waitedMs: before?.state === "waiting" ? nowMs - before.sinceMs : 0 }];
}
