import type { HardwareView, SlotView } from "../../src/api/management/views.ts";
import type { MachineReading } from "../../src/api/machine-reading.ts";
import type { GroupView } from "../../src/api/management/group-routes.ts";
import { heldOn } from "./memory.ts";

export interface Segment {
  /** Undefined: of no slot. */
  readonly slot?: string;
  /** The group within whose budget it is. */
  readonly group?: string;
  /** `reserved`: set aside for the slots of a group, and not in use; `other`: of programs that are no engine of Berth. */
  readonly kind: "held" | "coming" | "reserved" | "other" | "free";
  readonly bytes: number;
}

export interface DeviceMap {
  readonly id: string;
  readonly name: string;
  readonly total: number;
  readonly segments: readonly Segment[];
}

type MappedGroup = Pick<GroupView, "name" | "declared" | "budget" | "lent_until"> & {
  readonly members: readonly Pick<GroupView["members"][number], "slot">[];
};
type MappedSlot = Pick<SlotView, "name" | "state" | "fit" | "memory" | "processes">;

/**
 * The memory of each device: what each slot holds, what a slot that loads will need, what other programs use by `now`, and
 * what is left. The slots of a group stand side by side, with the rest of their budget.
 */
export function deviceMaps(
  machine: Partial<HardwareView>,
  slots: readonly MappedSlot[],
  now: MachineReading | null = null,
  groups: Iterable<MappedGroup> = [],
): readonly DeviceMap[] {
  const usedOn = (device: string): number => {
    if (device !== "host") return now?.gpus.find(({ id }) => id === device)?.used_bytes ?? 0;
    // Within a limit for Berth alone, what the whole machine uses says nothing.
    return typeof machine.memory?.limit_bytes === "number" ? 0 : (now?.memory.used_bytes ?? 0);
  };
  const gpus = (machine.gpus ?? []).flatMap(({ id, name, memory_usable_bytes: usable, memory_bytes: all }) => {
    const total = usable ?? all;
    return total === null || total === undefined ? [] : [{ id, name: name ?? id, total }];
  });
  const host = machine.memory?.usable_bytes;
  const devices = [
    ...gpus,
    ...(host === null || host === undefined ? [] : [{ id: "host", name: "Host", total: host }]),
  ];
  const budgets = [...groups].flatMap((group) => budgetOf(group, slots, devices));
  return devices.map(({ id, name, total }) => {
    const held = slots.flatMap((slot): Segment[] => {
      const size = heldOn(slot, id);
      return size === 0 ? [] : [{ slot: slot.name, kind: "held", bytes: size }];
    });
    const coming = slots.flatMap((slot): Segment[] => {
      if (slot.state !== "starting" && slot.state !== "warming") return [];
      const need = slot.fit?.devices.find((device) => device.id === id)?.need_bytes ?? 0;
      const more = need - heldOn(slot, id);
      return more <= 0 ? [] : [{ slot: slot.name, kind: "coming", bytes: more }];
    });
    const ofSlots = [...held, ...coming];
    // Memory that a loading slot has taken is measured later than the whole: it must not be shown as another program's.
    const others = usedOn(id) - bytesOf(ofSlots);
    let free = total - bytesOf(ofSlots) - Math.max(0, others);
    const grouped = budgets
      .filter(({ device }) => device === id)
      .flatMap(({ group, slots: names, size }): Segment[] => {
        const own = ofSlots.flatMap((segment) => (names.has(segment.slot ?? "") ? [{ ...segment, group }] : []));
        const reserved = size === undefined ? 0 : Math.min(free, size - bytesOf(own));
        if (reserved <= 0) return own;
        free -= reserved;
        return [...own, { group, kind: "reserved", bytes: reserved }];
      });
    const inGroups = new Set(grouped.map(({ slot }) => slot));
    const segments: Segment[] = [...grouped, ...ofSlots.filter(({ slot }) => !inGroups.has(slot))];
    if (others > 0) segments.push({ kind: "other", bytes: others });
    if (free > 0) segments.push({ kind: "free", bytes: free });
    return { id, name, total, segments };
  });
}

interface Budget {
  readonly group: string;
  readonly slots: ReadonlySet<string>;
  readonly device: string;
  /** Undefined: no part of the device is set aside. */
  readonly size?: number;
}

/** The device on which a group's slots stand side by side, and what is set aside for them there. */
function budgetOf(
  { name: group, declared, budget, members, lent_until: lent }: MappedGroup,
  slots: readonly MappedSlot[],
  devices: readonly { readonly id: string }[],
): readonly Budget[] {
  const names = new Set(members.map(({ slot }) => slot));
  const own = slots.filter(({ name }) => names.has(name));
  const heldOf = ({ id }: { readonly id: string }): number => own.reduce((sum, slot) => sum + heldOn(slot, id), 0);
  // A budget of bytes counts those of GPUs for a slot that uses one, else those of the host.
  const device = devices.toSorted((one, other) => heldOf(other) - heldOf(one))[0]?.id;
  if (device === undefined) return [];
  const size = declared && lent === null ? budget.find(({ resource }) => resource === "memory")?.total : undefined;
  return [{ group, slots: names, device, ...(size === undefined ? {} : { size }) }];
}

/** A segment of a bar is at least so wide, in thousandths: three pixels of a phone. */
const least = 10;

/** The width of each segment in thousandths of the bar. A small one is seen, too: the widest makes room for it. */
export function widthsOf(segments: readonly Segment[]): readonly number[] {
  const whole = bytesOf(segments);
  const wide = segments.map(({ bytes }) => Math.max(least, (1000 * bytes) / whole));
  const widest = wide.indexOf(Math.max(...wide));
  const over = wide.reduce((sum, each) => sum + each, 0) - 1000;
  return wide.map((each, nth) => (nth === widest ? each - over : each));
}

function bytesOf(segments: readonly Segment[]): number {
  return segments.reduce((sum, { bytes }) => sum + bytes, 0);
}
