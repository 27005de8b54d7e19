import { fits, type Amounts } from "./amounts.ts";
import type { Entries } from "./entries.ts";
import { grown, type Member } from "./member.ts";

/** The slots with room, by name, and with the amount that each of them counts for. */
export type Held = ReadonlyMap<string, Member>;

/**
 * The slots with room. A place that is granted and not taken yet, or the granted memory of a next engine, is lost where
 * it is too much by now.
 */
export function heldBy(
  members: readonly Member[],
  capacity: Amounts,
  before: Entries,
): { readonly held: Held; readonly growing: ReadonlySet<string> } {
  const held = new Map(members.flatMap((member) => (member.isPresent ? [[member.name, member] as const] : [])));
  const growing = new Set<string>();
  const hasRoom = (member: Member): boolean => fits([...new Map(held).set(member.name, member).values()], capacity);
  for (const member of members) {
    const entry = before.get(member.name);
    const isGrowing = member.isPresent && member.next !== undefined && entry?.next?.state === "granted";
    const isStarting = !member.isPresent && member.isRequesting && entry?.state === "granted";
    const claim = isGrowing ? grown(member) : member;
    if (!(isGrowing || isStarting) || !hasRoom(claim)) continue;
    held.set(member.name, claim);
    if (isGrowing) growing.add(member.name);
  }
  return { held, growing };
}

/**
 * The slots that wait for a place, or for the memory of their next engine, in their order: those that waited before come
 * first; new ones follow by name. Slots that no client waits for are behind all others.
 */
export function waitingMembers(
  members: readonly Member[],
  held: Held,
  growing: ReadonlySet<string>,
  before: Entries,
): readonly Member[] {
  const order = [...before].flatMap(([name, { state, next }]) =>
    state === "waiting" || next?.state === "waiting" ? [name] : [],
  );
  const places = new Map(order.map((name, index) => [name, index]));
  const place = ({ name }: Member): number => places.get(name) ?? Infinity;
  const waiting = members.filter((member) =>
    member.isPresent
      ? member.next !== undefined && !growing.has(member.name)
      : member.isRequesting && !held.has(member.name),
  );
  return waiting.toSorted((a, b) => {
    const attended = Number(a.isUnattended === true) - Number(b.isUnattended === true);
    if (attended !== 0) return attended;
    const [left, right] = [place(a), place(b)];
    return left === right ? a.name.localeCompare(b.name) : left - right;
  });
}
