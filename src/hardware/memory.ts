import type { Memory } from "../api/hardware.ts";
import { memoryLimit } from "./cgroup.ts";
import type { Machine } from "./machine.ts";
import { countIn, fieldsOf, EvidenceReader } from "./evidence-reader.ts";

/** Memory of the machine, and this process's limit. */
export async function probeMemory(machine: Machine): Promise<Memory> {
  const reader = new EvidenceReader(machine);
  const fields = fieldsOf((await reader.text("/proc/meminfo")) ?? "");
  const bytes = (field: string): number | undefined => countIn(fields.get(field)?.replace(/ kB$/, ""), 1024);
  const total = bytes("MemTotal");
  if (total !== undefined) reader.note("/proc/meminfo", `MemTotal ${fields.get("MemTotal") ?? ""}`);
  const found = await memoryLimit(reader);
  // A limit above the machine's memory limits nothing.
  const limit = found !== undefined && found.value < (total ?? Infinity) ? found : undefined;
  if (limit !== undefined) reader.note(limit.source, `allows ${limit.value} bytes`);
  const contiguous = bytes("CmaFree");
  return {
    total_bytes: total ?? null,
    available_bytes: bytes("MemAvailable") ?? null,
    ...(contiguous === undefined || contiguous === 0 ? {} : { contiguous_free_bytes: contiguous }),
    swap_bytes: bytes("SwapTotal") ?? null,
    limit_bytes: limit?.value ?? null,
    usable_bytes: limit?.value ?? total ?? null,
    evidence: reader.evidence,
  };
}
