import { exceeded, fits, type Amounts } from "./amounts.ts";
import type { Member } from "./member.ts";
import { secondsOf } from "./return-cost.ts";

/** With more candidates not every combination is tried: 2^10 sums take well under a millisecond. */
const exhaustiveLimit = 10;

/** The price of an eviction: the time until the slot is restored, weighed by how recently it was used. */
function price({ cost, idleMs }: Member): number {
  return Math.max(secondsOf(cost), 0.001) / (1 + idleMs / 1000);
}

/** The order of evictions: idle slots first, then slots of low priority, then the lowest price. */
export function byEviction(one: Member, other: Member): number {
  return (
    Number(one.isBusy) - Number(other.isBusy) ||
    one.priority - other.priority ||
    price(one) - price(other) ||
    (one.name < other.name ? -1 : 1)
  );
}

/**
 * The cheapest of the candidates without which all the others fit into the budget; undefined: not even without all of
 * them. `all` has the candidates, the other holders, and the waiter.
 */
export function evictions(
  candidates: readonly Member[],
  all: readonly Member[],
  capacity: Amounts,
): readonly Member[] | undefined {
  const short = exceeded(all, capacity);
  const useful = candidates
    .filter(({ needs }) => short.some((resource) => (needs.get(resource) ?? 0) > 0))
    .toSorted(byEviction);
  const without = (gone: readonly Member[]): readonly Member[] => all.filter((member) => !gone.includes(member));
  if (!fits(without(useful), capacity)) return undefined;
  if (useful.length <= exhaustiveLimit) return cheapest(useful, (gone) => fits(without(gone), capacity));
  let gone: readonly Member[] = [];
  for (const member of useful) {
    if (fits(without(gone), capacity)) break;
    gone = [...gone, member];
  }
  for (const member of gone.toReversed()) {
    const fewer = gone.filter((each) => each !== member);
    if (fits(without(fewer), capacity)) gone = fewer;
  }
  return gone;
}

/** The cheapest of all combinations that are enough: few busy slots, low priorities, a low price, in this order. */
function cheapest(members: readonly Member[], isEnough: (gone: readonly Member[]) => boolean): readonly Member[] {
  let best: { readonly gone: readonly Member[]; readonly cost: readonly number[] } | undefined;
  for (let bits = 0; bits < 2 ** members.length; bits += 1) {
    const gone = members.filter((_, index) => (bits & (1 << index)) !== 0);
    const cost = [
      gone.filter(({ isBusy }) => isBusy).length,
      Math.max(-Infinity, ...gone.map(({ priority }) => priority)),
      gone.reduce((sum, member) => sum + price(member), 0),
    ];
    if ((best === undefined || isLess(cost, best.cost)) && isEnough(gone)) best = { gone, cost };
  }
  return best?.gone ?? members;
}

function isLess(one: readonly number[], other: readonly number[]): boolean {
  const at = one.findIndex((value, index) => value !== other[index]);
  return at >= 0 && (one[at] ?? 0) < (other[at] ?? 0);
}
