import type { Gpu, HardwareFacts } from "../../api/hardware.ts";
import type { SlotGroupSpec } from "../../api/slot-group.ts";
import type { SlotStatus } from "../../api/status.ts";
import { gpuBudget, hostBudget } from "../../models/fit/budget.ts";
import { deviceNamed, unknownDevice } from "../../models/fit/device-name.ts";
import { amountOf, type Amounts } from "./amounts.ts";
import { memoryResource, slotsResource } from "./messages.ts";

type Machine = Pick<HardwareFacts, "memory" | "gpus"> | undefined;

/** The resources that a group shares. */
export interface Capacity {
  readonly capacity: Amounts;
  /** The budget cannot be applied here as it is written; one slot at a time is loaded meanwhile. */
  readonly problem?: string;
}

const host = "host";

/** The budget of a group; of a group that no SlotGroup declares the memory of every known device. */
export function capacityOf(budget: SlotGroupSpec["budget"] | undefined, machine: Machine): Capacity {
  const devices = devicesOf(machine);
  if (budget === undefined) return { capacity: devices };
  const { slots, memoryBytes, device } = budget;
  if (memoryBytes !== undefined) return { capacity: new Map([[memoryResource, memoryBytes]]) };
  if (device === undefined) return { capacity: new Map([[slotsResource, slots ?? 1]]) };
  const usable = (machine?.gpus ?? []).filter(({ backends }) => backends.length > 0);
  const nth = /^gpu(\d+)$/.exec(device)?.[1];
  const id = nth === undefined ? device : usable[Number(nth)]?.id;
  const bytes = id === undefined ? undefined : devices.get(id);
  if (id !== undefined && bytes !== undefined) return { capacity: new Map([[id, bytes]]) };
  const known = [...devices.keys()].map((each) => (each === host ? host : `${each} (${gpuName(each, usable)})`));
  const isThere = usable.some((gpu) => gpu.id === id);
  const what = isThere ? `the memory of ${device} is not known` : `this machine has no device ${device}`;
  const problem = `${what}: one slot at a time is loaded; known are ${known.join(", ") || "none"}`;
  return { capacity: new Map([[slotsResource, 1]]), problem };
}

function gpuName(id: string, gpus: readonly Gpu[]): string {
  return `gpu${gpus.findIndex((gpu) => gpu.id === id)}`;
}

function devicesOf(machine: Machine): Amounts {
  const found = new Map<string, number>();
  if (machine === undefined) return found;
  const own = hostBudget(machine.memory);
  if (own !== undefined) found.set(host, own.totalBytes);
  for (const gpu of machine.gpus) {
    const budget = gpu.backends.length === 0 ? undefined : gpuBudget(gpu, machine.memory);
    if (budget !== undefined) found.set(gpu.id, budget.totalBytes);
  }
  return found;
}

/**
 * The part of a budget that a loaded slot takes: by the best figure that is known, and at least the memory of its
 * processes. Of a budget that a SlotGroup declares a slot of which nothing is known takes all, until it was loaded once.
 */
export function needsOf(
  status: Pick<SlotStatus, "fit" | "memory" | "backend"> | undefined,
  { capacity, isDeclared }: { readonly capacity: Amounts; readonly isDeclared: boolean },
  machine: Machine,
): { readonly needs: Amounts; readonly isUnknown: boolean } {
  const bytes = bytesByDevice(status, machine);
  const gpus = [...bytes].filter(([id, amount]) => id !== host && amount > 0);
  const isOnGpu = bytes.size === 0 ? (status?.backend ?? "cpu") !== "cpu" : gpus.length > 0;
  const onGpus = gpus.reduce((sum, [, amount]) => sum + amount, 0);
  const needs = new Map<string, number>();
  for (const [resource, most] of capacity) {
    if (resource === slotsResource) needs.set(resource, 1);
    else if (bytes.size === 0) {
      const isOwn = resource === memoryResource || isOnGpu === (resource !== host);
      if (isDeclared && isOwn) needs.set(resource, most);
    } else if (resource === memoryResource) needs.set(resource, isOnGpu ? onGpus : amountOf(bytes, host));
    else if (resource !== host) needs.set(resource, amountOf(bytes, resource) + amountOf(bytes, unknownDevice));
    // The slots of an undeclared group share the device that they compute on.
    else if (isDeclared || !isOnGpu) needs.set(resource, amountOf(bytes, host));
  }
  return { needs, isUnknown: bytes.size === 0 && isDeclared && [...needs.keys()].some((id) => id !== slotsResource) };
}

/** The memory of each device, named as the machine's probe names it. Empty: nothing is known. */
function bytesByDevice(status: Pick<SlotStatus, "fit" | "memory"> | undefined, machine: Machine): Amounts {
  const needed = new Map<string, number>();
  for (const { id, needBytes } of status?.fit?.devices ?? []) {
    const device = deviceNamed(id, machine);
    needed.set(device, amountOf(needed, device) + needBytes);
  }
  const { hostBytes, devices = [] } = status?.memory ?? {};
  const held = [...devices, ...(hostBytes === undefined ? [] : [{ id: host, bytes: hostBytes }])];
  const isPlaced = [...needed.keys()].some((id) => id !== host);
  for (const { id, bytes } of held) {
    // A process on a GPU has the driver's mappings in its resident memory, and these are no need of the host.
    if (id === host && (isPlaced || devices.length > 0)) continue;
    needed.set(id, Math.max(amountOf(needed, id), bytes));
  }
  return needed;
}
