import type { GroupStatus } from "../../api/group-status.ts";
import { byteText } from "../../api/byte-text.ts";
import { amountOf, exceeded, sumOf, type Amounts } from "./amounts.ts";
import type { Entries } from "./entries.ts";
import { grown, isMovable, type Member } from "./member.ts";
import { slotsResource } from "./messages.ts";
import type { Grant } from "../plan/grant.ts";
import { shownCost } from "./return-cost.ts";

type MemberStatus = GroupStatus["members"][number];

export interface GroupFacts {
  readonly name: string;
  readonly isDeclared: boolean;
  readonly capacity: Amounts;
  readonly members: readonly Member[];
  readonly entries: Entries;
  readonly grants: (slot: string) => Grant;
  /** The grants of loaded slots whose engine is to be replaced. */
  readonly nextGrants: (slot: string) => Grant | undefined;
  readonly lentUntil?: string;
  /** Slots that could not be read since the operator started. */
  readonly unread: readonly string[];
  /** Why its budget cannot be applied here. */
  readonly budgetProblem: string | undefined;
}

/** A group as it is published. `before`: the last published one, whose times stay for what has not changed. */
export function groupStatus(facts: GroupFacts, before: GroupStatus | undefined, now: Date): GroupStatus {
  const { name, isDeclared, capacity, members, entries, grants, nextGrants, lentUntil } = facts;
  const holding = members
    .filter((member) => member.isPresent || entries.get(member.name)?.state === "granted")
    .map((member) => (entries.get(member.name)?.next?.state === "granted" ? grown(member) : member));
  const order = [...entries].flatMap(([slot, { state }]) => (state === "waiting" ? [slot] : []));
  const places = new Map(order.map((slot, index) => [slot, index]));
  const place = (member: Member): number => places.get(member.name) ?? Infinity;
  const published = new Map(before?.members.map((member) => [member.slot, member]));
  const sorted = members.toSorted((one, other) => {
    const [left, right] = [place(one), place(other)];
    return left === right ? (one.name < other.name ? -1 : 1) : left - right;
  });
  return {
    name,
    isDeclared,
    budget: [...capacity].map(([resource, total]) => ({ resource, total, used: sumOf(holding, resource) })),
    members: sorted.map((member) => {
      const state = stateOf(member, entries);
      const known = published.get(member.name);
      const own = grants(member.name);
      const grant = own.state === "waiting" ? own : (nextGrants(member.name) ?? own);
      const isNextWaiting = entries.get(member.name)?.next?.state === "waiting";
      const message = grant.state === "waiting" ? grant.message : undefined;
      return {
        slot: member.name,
        state,
        since: known?.state === state ? known.since : now.toISOString(),
        needs: [...capacity.keys()].map((resource) => ({ resource, amount: amountOf(member.needs, resource) })),
        ...(state === "loaded" && member.cost !== undefined ? { cost: shownCost(member.cost, known?.cost) } : {}),
        ...(isNextWaiting ? { nextWaitsSince: known?.nextWaitsSince ?? now.toISOString() } : {}),
        ...(message === undefined ? {} : { message }),
      };
    }),
    ...(lentUntil === undefined ? {} : { lentUntil }),
    problems: problemsOf(facts),
  };
}

function stateOf(member: Member, entries: Entries): MemberStatus["state"] {
  const state = entries.get(member.name)?.state;
  if (state === "waiting") return "waiting";
  if (member.isPresent) return state === "leaving" ? "leaving" : member.isReady ? "loaded" : "loading";
  return state === "granted" ? "loading" : "unloaded";
}

/** The problems of a group that a person should mend. */
function problemsOf({ name, capacity, members, unread, budgetProblem }: GroupFacts): GroupStatus["problems"] {
  const fixed = members.filter((member) => !isMovable(member) && member.isUnknown !== true);
  const unreadable = unread.map((slot) => ({
    reason: "SlotUnread",
    message: `slot ${slot} cannot be read; it counts as it was published last (\`berth slot show ${slot}\`)`,
  }));
  return [
    ...(budgetProblem === undefined ? [] : [{ reason: "UnknownDevice", message: budgetProblem }]),
    ...exceeded(fixed, capacity).map((resource) => ({
      reason: "BudgetTooSmall",
      message: tooSmall(name, resource, fixed, capacity),
    })),
    ...unreadable,
  ];
}

function tooSmall(group: string, resource: string, fixed: readonly Member[], capacity: Amounts): string {
  const most = amountOf(capacity, resource);
  const need = sumOf(fixed, resource);
  const isSlots = resource === slotsResource;
  const names = fixed.filter(({ needs }) => amountOf(needs, resource) > 0).map(({ name }) => name);
  const sums = isSlots
    ? `${need} slots; its budget is ${most}`
    : `${byteText(need)} of ${resource}; its budget is ${byteText(most)}`;
  return `the slots of group ${group} that never leave for another (${names.join(", ")}: pinned, or always loaded) need ${sums}`;
}
