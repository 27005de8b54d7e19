import type { Grant } from "../plan/grant.ts";
import { entryOf, type Entries, type Entry } from "./entries.ts";
import { waitingMembers } from "./waiting.ts";
import type { Member } from "./member.ts";
import { overBudgetMessage, waitingMessage } from "./messages.ts";
import { isInVain, place, type GroupRules, type Placement, type Waiting } from "./place.ts";
import { costText } from "./return-cost.ts";

/** The answer about the next engine of a loaded slot. */
export interface NextGrant {
  /** The key of the need that the answer is about. */
  readonly key: string;
  readonly grant: Grant;
}

export interface Admission {
  readonly entries: Entries;
  readonly grants: ReadonlyMap<string, Grant>;
  /** The grants of loaded slots whose engine is to be replaced. */
  readonly nextGrants: ReadonlyMap<string, NextGrant>;
  /** When time alone changes the answer. */
  readonly requeueMs?: number;
}

/**
 * Which slots of a group may be loaded, and which may replace their engine by a larger one. Pure. Room is granted in the
 * order of requests; where there is too little, slots that are ready, idle, not pinned and not always loaded are
 * preempted. Once a slot has waited for `maxWaitMs`, busy ones are preempted, too: they accept no new
 * requests and end those in flight. A loading slot is never preempted, nor a slot with the memory of its next engine; room
 * is granted only when it is free. A slot that fits beside all earlier waiting ones, as they will be loaded, need not wait
 * for them.
 */
export function admit(members: readonly Member[], rules: GroupRules, before: Entries, nowMs: number): Admission {
  // A preempted slot that is unloaded requests room again, behind the waiting ones.
  if (rules.lentUntil !== undefined) return lentAdmission(members, rules.lentUntil, before, nowMs);
  const placement = place(members, rules, before, nowMs);
  const { admitted, growing, waiting, leaving, requeueMs } = placement;
  const first = waiting.find(({ isHopeless, member }) => !isHopeless && !leaving.has(member.name))?.member.name;
  const entries = new Map<string, Entry>();
  const waits = new Map(waiting.map((each) => [each.member.name, each]));
  const inOrder = [
    ...[...admitted.values()].filter(({ name }) => !waits.has(name)),
    ...waiting.map(({ member }) => member),
  ];
  for (const member of inOrder) {
    const { name, isPresent } = member;
    const cause = leaving.get(name);
    const state = cause !== undefined ? "leaving" : waits.has(name) && !isPresent ? "waiting" : "granted";
    const next = growing.has(name) ? "granted" : waits.has(name) && isPresent ? "waiting" : undefined;
    const entry = entryOf(member, { state, next }, before, nowMs);
    entries.set(name, cause === undefined ? entry : { ...entry, cause });
  }
  const present = members.filter(({ isPresent }) => isPresent);
  const overText = overBudgetMessage(rules.group, present, rules.capacity);
  const over = overText === undefined ? {} : { over: overText };
  const grants = new Map<string, Grant>();
  const nextGrants = new Map<string, NextGrant>();
  for (const member of members) {
    const { name, isPresent, next } = member;
    const wait = waits.get(name);
    const cause = leaving.get(name);
    const waitingGrant = wait === undefined ? undefined : waitingFor(wait, placement, rules);
    if (cause !== undefined) grants.set(name, { ...costOf(member), ...over, state: "leaving", cause, for: first });
    else if (admitted.has(name)) grants.set(name, { state: "granted" });
    else if (waitingGrant !== undefined) grants.set(name, waitingGrant);
    // Told before the first request, which would be refused.
    else if (!isPresent && isInVain(member, admitted, rules.capacity))
      grants.set(name, waitingFor({ member, isHopeless: true }, placement, rules));
    if (!isPresent || next === undefined) continue;
    nextGrants.set(name, { key: next.key, grant: waitingGrant ?? { state: "granted" } });
  }
  return { entries, grants, nextGrants, ...(requeueMs === undefined ? {} : { requeueMs }) };
}

/** A loading slot is left to become ready first. A waiting slot keeps its place in the queue. */
function lentAdmission(members: readonly Member[], until: string, before: Entries, nowMs: number): Admission {
  const present = members.filter(({ isPresent }) => isPresent);
  const isGone = ({ isPresent, isReady, isLeaving }: Member): boolean => isPresent && (isReady || isLeaving);
  const waiting = waitingMembers(members, new Map(), new Set(), before);
  const entries = new Map<string, Entry>();
  for (const member of [...present.filter((each) => !waiting.includes(each)), ...waiting]) {
    const { name, isPresent } = member;
    const state = isGone(member) ? "leaving" : isPresent ? "granted" : "waiting";
    const next = isPresent && waiting.includes(member) ? "waiting" : undefined;
    const entry = entryOf(member, { state, next }, before, nowMs);
    entries.set(name, state === "leaving" ? { ...entry, cause: before.get(name)?.cause ?? "lent" } : entry);
  }
  const lent = { state: "lent", until } as const;
  const grantOf = (member: Member): Grant => {
    if (isGone(member)) return { state: "leaving", cause: "lent", for: undefined };
    return member.isPresent ? { state: "granted" } : lent;
  };
  return {
    entries,
    grants: new Map(members.map((member) => [member.name, grantOf(member)])),
    nextGrants: new Map(
      present.flatMap(({ name, next }) =>
        next === undefined ? [] : [[name, { key: next.key, grant: lent }] as const],
      ),
    ),
  };
}

function costOf({ cost }: Member): { readonly cost?: string } {
  const text = costText(cost);
  return text === undefined ? {} : { cost: text };
}

function waitingFor({ member, isHopeless }: Waiting, { admitted }: Placement, { group, capacity }: GroupRules): Grant {
  const others = [...admitted.values()].filter(({ name }) => name !== member.name);
  const holders = others.map(({ name }) => name).toSorted();
  const { next } = member;
  const waiter = next === undefined ? member : { ...member, needs: next.needs, isUnknown: next.isUnknown === true };
  const message = waitingMessage(group, waiter, others, capacity, isHopeless);
  return { state: "waiting", holders, isHopeless, message };
}
