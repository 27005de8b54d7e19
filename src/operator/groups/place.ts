import type { LeavingCause } from "../plan/grant.ts";
import { amountOf, exceeded, fits, type Amounts } from "./amounts.ts";
import { waitedMs, type Entries } from "./entries.ts";
import { heldBy, waitingMembers, type Held } from "./waiting.ts";
import { grown, isMovable, type Member } from "./member.ts";
import { secondsOf } from "./return-cost.ts";

/** The limits that a group sets its slots. */
export interface GroupRules {
  readonly group: string;
  /** The amounts that the loaded slots may need together. A resource that is not named is not limited. */
  readonly capacity: Amounts;
  /** After this time a waiting slot takes precedence over new requests of a busy slot. */
  readonly maxWaitMs: number;
  /** A slot that became ready stays at least this long. */
  readonly minResidencyMs: number;
  /** The group is lent until that time: every slot leaves as soon as it is ready, and none is loaded. */
  readonly lentUntil?: string;
}

export interface Waiting {
  readonly member: Member;
  /** Always loaded slots leave it no room. */
  readonly isHopeless: boolean;
}

export interface Placement {
  /** With room, also those that are asked to leave. */
  readonly admitted: Held;
  /** Loaded slots that have the memory of their next engine, too. */
  readonly growing: ReadonlySet<string>;
  /** Without room, in their order: for a place, or, where the slot is loaded, for its next engine. */
  readonly waiting: readonly Waiting[];
  readonly leaving: ReadonlyMap<string, LeavingCause>;
  /** When time alone changes the answer. */
  readonly requeueMs?: number;
}

/**
 * A slot that became ready keeps its place for at least this long before it is preempted while it is busy: otherwise
 * two slots that both waited too long would take the place from each other before either answers a request.
 */
const leastTurnMs = 5000;

/** Whether always loaded slots leave it no room, or the whole budget is too little for it: waiting would not help. */
export function isInVain(member: Member, held: Held, capacity: Amounts): boolean {
  const always = without(held, member.name).filter(({ isAlways }) => isAlways);
  return !fits([...always, member], capacity);
}

/** Who gets room, who waits and who leaves. Pure. */
export function place(members: readonly Member[], rules: GroupRules, before: Entries, nowMs: number): Placement {
  const { capacity, maxWaitMs, minResidencyMs } = rules;
  const { held, growing: grew } = heldBy(members, capacity, before);
  const growing = new Set(grew);
  const readyMs = ({ name }: Member): number => nowMs - (before.get(name)?.readySinceMs ?? nowMs);
  const turnMs = Math.max(minResidencyMs, leastTurnMs);
  const canLeave = (member: Member, isLate: boolean): boolean => {
    if (!member.isReady || member.isLeaving || !isMovable(member)) return false;
    // The engine is being replaced by one for which the slot has the memory.
    if (growing.has(member.name)) return false;
    return member.isBusy ? isLate && readyMs(member) >= turnMs : readyMs(member) >= minResidencyMs;
  };
  const leaving = new Map<string, LeavingCause>();
  for (const { name, isLeaving } of held.values()) if (isLeaving) leaving.set(name, before.get(name)?.cause ?? "idle");
  const admitted = new Map(held);
  const waiting: Waiting[] = [];
  /** Waiting ones for which nobody leaves yet. */
  const stuck: Member[] = [];
  // As it will be when those that leave are gone, and the earlier waiting ones are loaded.
  const later = new Map([...held].filter(([, { isLeaving }]) => !isLeaving));
  for (const { name } of overBudget([...later.values()], capacity, (each) => canLeave(each, false))) {
    leaving.set(name, "budget");
    later.delete(name);
  }
  for (const member of waitingMembers(members, held, growing, before)) {
    const { name } = member;
    // A slot that leaves is loaded again with its next engine.
    if (member.isPresent && !later.has(name)) {
      waiting.push({ member, isHopeless: false });
      continue;
    }
    const claim = grown(member);
    const others = without(later, name);
    const isFree = fits([...others, claim], capacity);
    if (isFree && fits([...without(admitted, name), claim], capacity)) {
      admitted.set(name, claim);
      later.set(name, claim);
      if (member.isPresent) growing.add(name);
      continue;
    }
    const isHopeless = isInVain(claim, held, capacity);
    waiting.push({ member, isHopeless });
    // Nobody waits for it any more: it takes room that is free, and costs no other slot its place.
    const isGivenUp = member.isUnattended === true && !member.isPresent;
    if (isHopeless || (isGivenUp && !isFree)) continue;
    if (!isFree) {
      const isLate = waitedMs(member, before, nowMs) >= maxWaitMs && member.isUnattended !== true;
      const ready = others.filter((each) => held.has(each.name) && canLeave(each, isLate));
      const now = evictions(ready, [...others, claim], capacity);
      for (const each of now ?? []) leaving.set(each.name, each.isBusy ? "waited" : "idle");
      if (now === undefined) stuck.push(member);
      const movable = others.filter((each) => admitted.has(each.name) && isMovable(each));
      const gone = now ?? evictions(movable, [...others, claim], capacity);
      if (gone === undefined) continue;
      for (const each of gone) later.delete(each.name);
    }
    later.set(name, claim);
  }
  const decided = { admitted, growing, waiting, leaving };
  const isShort = exceeded([...later.values()], capacity).length > 0 || stuck.length > 0;
  const staying = [...held.values()].filter((each) => each.isReady && isMovable(each) && !leaving.has(each.name));
  if (!isShort || staying.length === 0) return decided;
  const soonest = [
    ...staying.flatMap((each) => [minResidencyMs - readyMs(each), turnMs - readyMs(each)]),
    ...stuck.map((each) => (each.isUnattended === true ? 0 : maxWaitMs - waitedMs(each, before, nowMs))),
  ].filter((ms) => ms > 0);
  return { ...decided, ...(soonest.length === 0 ? {} : { requeueMs: Math.min(...soonest) }) };
}

function without(held: Held, name: string): readonly Member[] {
  return [...held.values()].filter((each) => each.name !== name);
}

/** The holders over the budget that can leave now, as far as that helps. */
function overBudget(
  holders: readonly Member[],
  capacity: Amounts,
  canLeave: (member: Member) => boolean,
): readonly Member[] {
  const candidates = holders.filter(canLeave);
  const enough = evictions(candidates, holders, capacity);
  if (enough !== undefined) return enough;
  const short = exceeded(holders, capacity);
  return candidates.filter(({ needs }) => short.some((resource) => amountOf(needs, resource) > 0));
}

/**
 * The candidates that leave so that all others fit into the budget. From the end of the order of evictions each candidate
 * stays for which there is room. Undefined: all of them are not enough. `all` has the candidates, the other holders, and
 * the waiter.
 */
function evictions(
  candidates: readonly Member[],
  all: readonly Member[],
  capacity: Amounts,
): readonly Member[] | undefined {
  const isEnough = (gone: readonly Member[]): boolean =>
    fits(
      all.filter((member) => !gone.includes(member)),
      capacity,
    );
  if (!isEnough(candidates)) return undefined;
  let gone = candidates.toSorted(byEviction);
  for (const member of gone.toReversed()) {
    const fewer = gone.filter((each) => each !== member);
    if (isEnough(fewer)) gone = fewer;
  }
  return gone;
}

/**
 * The order of evictions: idle slots, then slots of low priority, then those unused for longest. Of slots that are unused
 * for the same number of minutes the one that comes back soonest is first.
 */
function byEviction(one: Member, other: Member): number {
  const minutes = ({ idleMs }: Member): number => Math.floor(idleMs / 60_000);
  return (
    Number(one.isBusy) - Number(other.isBusy) ||
    one.priority - other.priority ||
    minutes(other) - minutes(one) ||
    secondsOf(one.cost) - secondsOf(other.cost) ||
    (one.name < other.name ? -1 : 1)
  );
}
