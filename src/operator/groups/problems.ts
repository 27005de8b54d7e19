import type { GroupStatus } from "../../api/group-status.ts";
import { byteText } from "../../api/byte-text.ts";
import { amountOf, exceeded, sumOf, type Amounts } from "./amounts.ts";
import { isMovable, type Member } from "./member.ts";
import { slotsResource } from "./messages.ts";

/** The problems of a group that a person should mend. */
export function groupProblems({
  group,
  capacity,
  members,
  unread,
  devices,
}: {
  readonly group: string;
  readonly capacity: Amounts;
  readonly members: readonly Member[];
  /** Slots that could not be read since the operator started. */
  readonly unread: readonly string[];
  /** Why its budget cannot be applied here. */
  readonly devices: string | undefined;
}): GroupStatus["problems"] {
  const fixed = members.filter((member) => !isMovable(member) && member.isUnknown !== true);
  const unreadable = unread.map((slot) => ({
    reason: "SlotUnread",
    message: `slot ${slot} cannot be read; it counts as it was published last (\`berth slot show ${slot}\`)`,
  }));
  return [
    ...(devices === undefined ? [] : [{ reason: "UnknownDevice", message: devices }]),
    ...exceeded(fixed, capacity).map((resource) => ({
      reason: "BudgetTooSmall",
      message: tooSmall(group, resource, fixed, capacity),
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
