import type { Memory } from "../api/hardware.ts";
import { memoryLimit } from "./cgroup.ts";
import type { Machine } from "./machine.ts";
import { countIn, fieldsOf, Witness } from "./witness.ts";

/** Memory of the machine, and the limit that this process is under. */
export async function lookAtMemory(machine: Machine): Promise<Memory> {
  const witness = new Witness(machine);
  const fields = fieldsOf((await witness.text("/proc/meminfo")) ?? "");
  const bytes = (field: string): number | undefined => countIn(fields.get(field)?.replace(/ kB$/, ""), 1024);
  const total = bytes("MemTotal");
  if (total !== undefined) witness.note("/proc/meminfo", `MemTotal ${fields.get("MemTotal") ?? ""}`);
  const found = await memoryLimit(witness);
  // A limit above what there is limits nothing.
  const limit = found !== undefined && found.value < (total ?? Infinity) ? found : undefined;
  if (limit !== undefined) witness.note(limit.source, `allows ${limit.value} bytes`);
  return {
    total_bytes: total ?? null,
    available_bytes: bytes("MemAvailable") ?? null,
    swap_bytes: bytes("SwapTotal") ?? null,
    limit_bytes: limit?.value ?? null,
    usable_bytes: limit?.value ?? total ?? null,
    evidence: witness.evidence,
  };
}
