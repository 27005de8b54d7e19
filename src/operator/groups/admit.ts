import type { Grant, LeavingCause } from "../plan/grant.ts";
import { amountOf, exceeded, fits, largest, type Amounts } from "./amounts.ts";
import { evictions } from "./evictions.ts";
import { isMovable, type Member } from "./member.ts";
import { waitingMessage } from "./messages.ts";
import { costText } from "./return-cost.ts";

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

/** The ledger's record of one slot between two admissions. */
export interface Entry {
  readonly state: "granted" | "leaving" | "waiting";
  /** Since when it has that state. */
  readonly sinceMs: number;
  /** Since when it has been ready without interruption. */
  readonly readySinceMs?: number;
  /** Of a leaving slot. */
  readonly cause?: LeavingCause;
}

/** Waiting slots in the order of their requests. */
export type Entries = ReadonlyMap<string, Entry>;

export interface Admission {
  readonly entries: Entries;
  readonly grants: ReadonlyMap<string, Grant>;
  /** When time alone changes the answer. */
  readonly againMs?: number;
}

/**
 * A slot that became ready keeps its place for at least this long before it is preempted while it is busy: otherwise
 * two slots that both waited too long would take the place from each other before either answers a request.
 */
const leastTurnMs = 5000;

/**
 * Which slots of a group may be loaded. Pure. Room is granted in the order of requests; where there is too little,
 * slots that are ready, idle, not pinned and not always loaded are preempted, the cheapest first. Once a slot has waited
 * for `maxWaitMs`, busy ones are preempted, too: they accept no new requests and end those in flight. A loading slot is
 * never preempted, and room is granted only when it is free. A slot that fits beside all earlier waiting ones, as they
 * will be loaded, need not wait for them.
 */
export function admit(members: readonly Member[], rules: GroupRules, before: Entries, nowMs: number): Admission {
  // A preempted slot that is unloaded requests room again, behind the waiting ones.
  if (rules.lentUntil !== undefined) return lentAdmission(members, rules.lentUntil, before, nowMs);
  const holders = holdersOf(members, rules.capacity, before);
  const line = inLine(
    members.filter((member) => member.isAsking && !holders.includes(member)),
    before,
  );
  const placement = place(holders, line, rules, before, nowMs);
  const { admitted, waiting, leaving } = placement;
  const known = (member: Member, state: Entry["state"]): readonly [string, Entry] =>
    entryOf(member, state, before, nowMs);
  const first = waiting.find(({ isHopeless }) => !isHopeless)?.member;
  const firstSlot = first?.growth?.of ?? first?.name;
  return {
    entries: new Map([
      ...admitted.map((member) => known(member, "granted")),
      ...waiting.map(({ member }) => known(member, "waiting")),
      ...[...leaving].map(([member, cause]) => {
        const [name, entry] = known(member, "leaving");
        return [name, { ...entry, cause }] as const;
      }),
    ]),
    grants: new Map<string, Grant>([
      ...admitted.map(({ name }) => [name, { state: "granted" }] as const),
      ...waiting.map(
        ({ member, isHopeless }) => [member.name, waitingGrant(member, isHopeless, admitted, rules)] as const,
      ),
      ...[...leaving].map(
        ([member, cause]) => [member.name, { ...costOf(member), state: "leaving", cause, for: firstSlot }] as const,
      ),
    ]),
    ...(placement.againMs === undefined ? {} : { againMs: placement.againMs }),
  };
}

/** A loading slot is left to become ready first. A waiting slot keeps its place in the queue. */
function lentAdmission(members: readonly Member[], until: string, before: Entries, nowMs: number): Admission {
  const present = members.filter(({ isPresent }) => isPresent);
  const leaving = present.filter(({ isReady, isLeaving }) => isReady || isLeaving);
  const line = inLine(
    members.filter(({ isPresent, isAsking }) => isAsking && !isPresent),
    before,
  );
  return {
    entries: new Map([
      ...present.map((member) => entryOf(member, "granted", before, nowMs)),
      ...line.map((member) => entryOf(member, "waiting", before, nowMs)),
      ...leaving.map((member): readonly [string, Entry] => {
        const [name, entry] = entryOf(member, "leaving", before, nowMs);
        return [name, { ...entry, cause: before.get(name)?.cause ?? "lent" }];
      }),
    ]),
    grants: new Map<string, Grant>([
      ...members.map(({ name }) => [name, { state: "lent", until }] as const),
      ...present.map(({ name }) => [name, { state: "granted" }] as const),
      ...leaving.map(({ name }) => [name, { state: "leaving", cause: "lent", for: undefined }] as const),
    ]),
  };
}

/** With a place. A place that is granted and not taken yet is lost where the slot needs more by now than there is. */
function holdersOf(members: readonly Member[], capacity: Amounts, before: Entries): readonly Member[] {
  const holders = members.filter(({ isPresent }) => isPresent);
  for (const member of members) {
    if (member.isPresent || !member.isAsking || before.get(member.name)?.state !== "granted") continue;
    if (fits([...holders, member], capacity)) holders.push(member);
  }
  return holders;
}

interface Placement {
  /** With room, also those that are asked to leave. */
  readonly admitted: readonly Member[];
  /** Without room, in their order. Hopeless: always loaded slots leave it none. */
  readonly waiting: readonly { readonly member: Member; readonly isHopeless: boolean }[];
  readonly leaving: ReadonlyMap<Member, LeavingCause>;
  readonly againMs?: number;
}

function place(
  holders: readonly Member[],
  line: readonly Member[],
  { capacity, maxWaitMs, minResidencyMs }: GroupRules,
  before: Entries,
  nowMs: number,
): Placement {
  const waitedMs = ({ name }: Member): number => {
    const entry = before.get(name);
    return entry?.state === "waiting" ? nowMs - entry.sinceMs : 0;
  };
  const readyMs = ({ name }: Member): number => nowMs - (before.get(name)?.readySinceMs ?? nowMs);
  const turnMs = Math.max(minResidencyMs, leastTurnMs);
  const canLeave = (member: Member, isLate: boolean): boolean => {
    if (!member.isReady || member.isLeaving || !isMovable(member)) return false;
    // The engine is being replaced by one for which the slot has the memory.
    if (holders.some(({ growth }) => growth?.of === member.name)) return false;
    return member.isBusy ? isLate && readyMs(member) >= turnMs : readyMs(member) >= minResidencyMs;
  };
  const leaving = new Map(
    holders.flatMap((member) =>
      member.isLeaving ? [[member, before.get(member.name)?.cause ?? "idle"] as const] : [],
    ),
  );
  const admitted = [...holders];
  const waiting: { readonly member: Member; readonly isHopeless: boolean }[] = [];
  /** Waiting ones for which nobody leaves yet. */
  const stuck: Member[] = [];
  // As it will be when those that leave are gone, and the earlier waiting ones are loaded.
  let later: readonly Member[] = holders.filter(({ isLeaving }) => !isLeaving);
  for (const member of overBudget(later, capacity, (each) => canLeave(each, false))) {
    leaving.set(member, "budget");
    later = later.filter((each) => each !== member);
  }
  for (const member of line) {
    const own = member.growth?.of;
    // A slot that leaves is loaded again with its next model.
    if (own !== undefined && !later.some(({ name }) => name === own)) {
      waiting.push({ member, isHopeless: false });
      continue;
    }
    const always = holders.filter(({ isAlways, name }) => isAlways || name === own);
    const isFree = fits([...later, member], capacity);
    if (isFree && fits([...admitted, member], capacity)) {
      admitted.push(member);
      later = [...later, member];
      continue;
    }
    const isHopeless = !fits([...always, member], capacity);
    waiting.push({ member, isHopeless });
    if (isFree) later = [...later, member];
    if (isFree || isHopeless) continue;
    const isLate = waitedMs(member) >= maxWaitMs && member.isUnattended !== true;
    const ready = later.filter((each) => each.name !== own && holders.includes(each) && canLeave(each, isLate));
    const now = evictions(ready, [...later, member], capacity);
    for (const each of now ?? []) leaving.set(each, each.isBusy ? "waited" : "idle");
    const movable = later.filter((each) => each.name !== own && admitted.includes(each) && isMovable(each));
    const gone = now ?? evictions(movable, [...later, member], capacity);
    if (now === undefined) stuck.push(member);
    if (gone !== undefined) later = [...later.filter((each) => !gone.includes(each)), member];
  }
  const isShort = exceeded(later, capacity).length > 0 || stuck.length > 0;
  const staying = holders.filter((each) => each.isReady && isMovable(each) && !leaving.has(each));
  if (!isShort || staying.length === 0) return { admitted, waiting, leaving };
  const soonest = [
    ...staying.flatMap((each) => [minResidencyMs - readyMs(each), turnMs - readyMs(each)]),
    ...stuck.map((each) => (each.isUnattended === true ? 0 : maxWaitMs - waitedMs(each))),
  ].filter((ms) => ms > 0);
  return { admitted, waiting, leaving, ...(soonest.length === 0 ? {} : { againMs: Math.min(...soonest) }) };
}

/** Of holders that are over the budget those that can leave now, as far as that helps. */
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

function costOf({ cost }: Member): { readonly cost?: string } {
  const text = costText(cost);
  return text === undefined ? {} : { cost: text };
}

function waitingGrant(
  member: Member,
  isHopeless: boolean,
  admitted: readonly Member[],
  { group, capacity }: GroupRules,
): Grant {
  const slots = admitted.filter(({ growth, name }) => growth === undefined && name !== member.growth?.of);
  const holders = slots.map(({ name }) => name).toSorted();
  const withGrowth = slots.map((slot) => {
    const growth = admitted.find((each) => each.growth?.of === slot.name)?.growth;
    return growth === undefined ? slot : { ...slot, needs: largest(slot.needs, growth.whole) };
  });
  const waiter = member.growth === undefined ? member : { ...member, needs: member.growth.whole };
  const message = waitingMessage(group, waiter, withGrowth, capacity, isHopeless);
  return { state: "waiting", holders, isHopeless, message };
}

function entryOf(member: Member, state: Entry["state"], before: Entries, nowMs: number): readonly [string, Entry] {
  const known = before.get(member.name);
  const sinceMs = known?.state === state ? known.sinceMs : nowMs;
  return [member.name, { state, sinceMs, ...(member.isReady ? { readySinceMs: known?.readySinceMs ?? nowMs } : {}) }];
}

/**
 * Slots that waited before come first, in their order; new ones by name. Slots that no client waits for are behind all
 * others.
 */
function inLine(asking: readonly Member[], before: Entries): readonly Member[] {
  const order = [...before.keys()];
  const place = ({ name }: Member): number => (before.get(name)?.state === "waiting" ? order.indexOf(name) : Infinity);
  return asking.toSorted((a, b) => {
    const attended = Number(a.isUnattended === true) - Number(b.isUnattended === true);
    if (attended !== 0) return attended;
    const [left, right] = [place(a), place(b)];
    return left === right ? a.name.localeCompare(b.name) : left - right;
  });
}
