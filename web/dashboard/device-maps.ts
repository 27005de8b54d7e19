import type { HardwareView, SlotView } from "../../src/api/management/views.ts";
import type { MachineReading } from "../../src/api/machine-reading.ts";
import { heldOn } from "./memory.ts";

export interface Segment {
  /** Undefined: of no slot. */
  readonly slot?: string;
  /** `other`: of programs that are no engine of Berth. */
  readonly kind: "held" | "coming" | "other" | "free";
  readonly bytes: number;
}

export interface DeviceMap {
  readonly id: string;
  readonly name: string;
  readonly total: number;
  readonly segments: readonly Segment[];
}

type MappedSlot = Pick<SlotView, "name" | "state" | "fit" | "memory" | "processes">;

/**
 * The memory of each device: what each slot holds, what a slot that loads will need, what other programs use by `now`, and
 * what is left.
 */
export function deviceMaps(
  machine: Partial<HardwareView>,
  slots: readonly MappedSlot[],
  now: MachineReading | null = null,
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
    const others = usedOn(id) - ofSlots.reduce((sum, segment) => sum + segment.bytes, 0);
    const taken = others <= 0 ? ofSlots : [...ofSlots, { kind: "other" as const, bytes: others }];
    const free = total - taken.reduce((sum, segment) => sum + segment.bytes, 0);
    return { id, name, total, segments: free <= 0 ? taken : [...taken, { kind: "free", bytes: free }] };
  });
}
