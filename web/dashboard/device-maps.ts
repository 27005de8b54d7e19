import type { HardwareView, SlotView } from "../../src/api/management/views.ts";
import { heldOn } from "./memory.ts";

export interface Segment {
  /** Undefined: of no slot. */
  readonly slot?: string;
  readonly kind: "held" | "coming" | "free";
  readonly bytes: number;
}

export interface DeviceMap {
  readonly id: string;
  readonly name: string;
  readonly total: number;
  readonly segments: readonly Segment[];
}

type MappedSlot = Pick<SlotView, "name" | "state" | "fit" | "memory" | "processes">;

/** The memory of each device: what each slot holds, what a slot that loads will need, and what is left. */
export function deviceMaps(machine: Partial<HardwareView>, slots: readonly MappedSlot[]): readonly DeviceMap[] {
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
    const taken = [...held, ...coming];
    const free = total - taken.reduce((sum, segment) => sum + segment.bytes, 0);
    return { id, name, total, segments: free <= 0 ? taken : [...taken, { kind: "free", bytes: free }] };
  });
}
