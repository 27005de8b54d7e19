import type { Gpu, Memory } from "../../api/hardware.ts";

/** The memory that a device can give to an engine. */
export interface Budget {
  readonly id: string;
  readonly kind: "discrete" | "unified" | "host";
  /** The largest possible amount, with nothing else on the device. */
  readonly totalBytes: number;
  /** The amount that is free now; absent: unknown, or not relevant because the kernel frees memory by itself. */
  readonly freeBytes?: number;
  /** The bytes that a GPU with shared memory and the processor may take together. */
  readonly machineBytes?: number;
  /** The part of what is free that slots which are being loaded will take, for messages. */
  readonly reserved?: { readonly bytes: number; readonly slots: readonly string[] };
  /** The origin of the figure, for messages. */
  readonly reason: string;
}

/** The memory of the machine that a GPU may not take, since the system needs it. */
const reserveBytes = 1024 ** 3;

/**
 * The machine's own memory, for engines that compute on the processor: the limit of the control group. Memory in use by
 * other programs is not subtracted: the kernel drops mapped files and swaps before an allocation fails.
 */
export function hostBudget(memory: Memory): Budget | undefined {
  const { usable_bytes: usable, limit_bytes: limit } = memory;
  if (usable === null) return undefined;
  return {
    id: "host",
    kind: "host",
    totalBytes: usable,
    reason: limit === null ? "the machine's memory" : "the limit of its control group",
  };
}

/**
 * The memory of a GPU. With memory of its own: the part that the driver leaves. With shared memory: the part that it may
 * map (GTT) and its carve-out, but no more than the machine has left.
 */
export function gpuBudget(gpu: Gpu, memory: Memory): Budget | undefined {
  const own = gpu.memory_usable_bytes ?? gpu.memory_bytes ?? undefined;
  if (gpu.integrated !== true) {
    if (own === undefined) return undefined;
    const free = gpu.memory_free_bytes ?? undefined;
    const reason = "its own memory";
    return {
      id: gpu.id,
      kind: "discrete",
      totalBytes: own,
      ...(free === undefined ? {} : { freeBytes: free }),
      reason,
    };
  }
  const shared = gpu.shared_memory_bytes ?? undefined;
  const { total_bytes: total, available_bytes: available } = memory;
  if (shared === undefined || total === null || available === null) return undefined;
  const carved = own ?? 0;
  const carvedFree = gpu.memory_free_bytes ?? carved;
  const used = gpu.shared_memory_used_bytes ?? 0;
  const contiguous = memory.contiguous_free_bytes ?? 0;
  const mapped = shared - used + carvedFree;
  const left = available - contiguous - reserveBytes;
  return {
    id: gpu.id,
    kind: "unified",
    totalBytes: Math.max(0, Math.min(shared + carved, total - reserveBytes)),
    // Memory that was carved out for the GPU is no part of the total that the kernel reports.
    machineBytes: Math.max(0, total + carved - reserveBytes),
    freeBytes: Math.max(0, Math.min(mapped, left)),
    reason:
      mapped < left
        ? "what is left of the memory it may map (GTT) and of what was carved out for it"
        : "what the machine's memory has left, but for 1 GiB",
  };
}
