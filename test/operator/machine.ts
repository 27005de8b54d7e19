import type { Gpu, Memory } from "../../src/api/hardware.ts";
import { gpu } from "../hardware/parts.ts";

export const gib = 1024 ** 3;

/** A machine's memory, all of which engines may use. */
export function memoryOf(bytes: number, more: Partial<Memory> = {}): Memory {
  const none = { swap_bytes: 0, limit_bytes: null, evidence: [] };
  return { total_bytes: bytes, available_bytes: bytes, usable_bytes: bytes, ...none, ...more };
}

/** An NVIDIA GPU with 8 GiB of its own. */
export function card(freeBytes = 8 * gib): Gpu {
  return gpu({
    id: "0000:01:00.0",
    vendor: "nvidia",
    integrated: false,
    memory_bytes: 8 * gib,
    memory_free_bytes: freeBytes,
    backends: ["cuda"],
    evidence: [],
  });
}
