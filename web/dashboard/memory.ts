import type { SlotView } from "../../src/api/management/views.ts";

type Holder = Pick<SlotView, "memory" | "memory_bytes" | "processes">;

/** Bytes on GPUs and the host together; null: not measured, or nothing runs whose memory it could be. */
export function memoryOf({ memory, memory_bytes: resident, processes }: Holder): number | null {
  if (processes.length === 0) return null;
  if (memory === null || memory === undefined) return resident ?? null;
  return memory.devices.reduce((sum, device) => sum + device.bytes, memory.host_bytes ?? 0);
}

/** Bytes on one device, which is `host` or a GPU's id; 0 where nothing runs. */
export function heldOn({ memory, processes }: Pick<Holder, "memory" | "processes">, device: string): number {
  if (memory === null || memory === undefined || processes.length === 0) return 0;
  return device === "host" ? (memory.host_bytes ?? 0) : (memory.devices.find(({ id }) => id === device)?.bytes ?? 0);
}

/**
 * A slot after one of its events, which leave out the memory of its processes, since that changes all the time: the last
 * figure is kept as long as the processes are the same.
 */
export function withEvent<T extends Partial<Holder>>(before: T | undefined, event: T): T {
  if (before === undefined) return event;
  const isSame = identities(before) === identities(event);
  return { ...before, ...(isSame ? {} : { memory_bytes: null }), ...event };
}

function identities({ processes = [] }: Partial<Holder>): string {
  return processes.map(({ pid, containerId, podName, startedAt }) => [pid, containerId, podName, startedAt]).join(" ");
}
