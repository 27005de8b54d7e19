import { byteText } from "../../api/byte-text.ts";
import { amountOf, exceeded, sumOf, type Amounts } from "./amounts.ts";
import type { Member } from "./member.ts";

/** The resource of a budget of `slots`. */
export const slotsResource = "slots";
/** The resource of a budget of `memoryBytes`. Messages name it so, as they name a device. */
export const memoryResource = "memory";

/** Why a holder keeps its place; empty: until the end of its requests. */
function remark({ isAlways, isPinned, isLeaving, isReady, startupSeconds }: Member): string {
  if (isLeaving) return "leaves";
  if (!isReady) return `still loads${startupSeconds === undefined ? "" : `, for ${startupSeconds} s at most`}`;
  if (isAlways) return "is always loaded";
  return isPinned ? "is pinned, and leaves only when it is idle for its own idle time" : "";
}

function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""}`;
}

/** Why a slot gets no place now. `admitted`: those with a place. */
export function waitingMessage(
  group: string,
  waiter: Member,
  admitted: readonly Member[],
  capacity: Amounts,
  isHopeless: boolean,
): string {
  const [resource = slotsResource] = exceeded([...admitted, waiter], capacity);
  const holders = admitted
    .filter(({ needs }) => amountOf(needs, resource) > 0)
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  if (resource !== slotsResource) return bytesMessage(group, waiter, holders, capacity, isHopeless, resource);
  const names = holders.map(({ name }) => name).join(", ");
  if (holders.length === 0) return `group ${group} is full: its other slots come first`;
  const have = holders.length === 1 ? "has its place" : "have their places";
  if (isHopeless) {
    const always = holders.filter(({ isAlways }) => isAlways).map(({ name }) => name);
    const those = always.length === holders.length ? "" : `${always.join(", ")} `;
    return `group ${group} is full: ${names} ${have} and ${those}never leave${always.length === 1 ? "s" : ""}, being always loaded`;
  }
  const remarks = holders.flatMap((holder) => (remark(holder) === "" ? [] : [`${holder.name} ${remark(holder)}`]));
  return `group ${group} is full: ${names} ${have}${remarks.length === 0 ? "" : `; ${listed(remarks)}`}`;
}

/** Says how much the loaded slots hold of a budget that they are over; undefined: they are within it. */
export function overBudgetMessage(group: string, held: readonly Member[], capacity: Amounts): string | undefined {
  const [resource] = exceeded(held, capacity);
  if (resource === undefined) return undefined;
  const [sum, most] = [sumOf(held, resource), amountOf(capacity, resource)];
  if (resource === slotsResource) return `group ${group} holds ${sum} slots, and its budget is ${most}`;
  return `group ${group} holds ${byteText(sum)} of ${resource}, and its budget is ${byteText(most)}`;
}

function bytesMessage(
  group: string,
  waiter: Member,
  holders: readonly Member[],
  capacity: Amounts,
  isHopeless: boolean,
  resource: string,
): string {
  const need = amountOf(waiter.needs, resource);
  const most = amountOf(capacity, resource);
  const whole = `${byteText(most)} of ${resource}`;
  if (need > most)
    return `group ${group} has too little for it: it needs ${byteText(need)}, and the group has ${whole}; a smaller model or a larger budget helps`;
  const held = holders.map((holder) => {
    const words = remark(holder);
    return `${holder.name} holds ${byteText(amountOf(holder.needs, resource))}${words === "" ? "" : ` (${words})`}`;
  });
  const has = held.length === 0 ? "its other slots come first" : `of ${whole} ${listed(held)}`;
  const needed =
    waiter.isUnknown === true
      ? "what it needs is not known, so that it is loaded alone the first time"
      : `it needs ${byteText(need)}`;
  return `group ${group} is full: ${needed}, and ${has}${isHopeless ? "; always loaded slots never leave" : ""}`;
}
