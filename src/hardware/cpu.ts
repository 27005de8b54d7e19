import type { Cpu } from "../api/hardware.ts";
import { cpuLimit } from "./cgroup.ts";
import type { Machine } from "./machine.ts";
import { fieldsOf, EvidenceReader } from "./evidence-reader.ts";

/** Instruction sets for which llama.cpp has special code (its CMake options), as /proc/cpuinfo spells them. */
const wanted = (
  "sse4_2 avx f16c fma bmi2 avx2 avx_vnni avx512f avx512vbmi avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16 " +
  "asimd asimddp i8mm bf16 sve sve2 sme"
).split(" ");

const directory = "/sys/devices/system/cpu";

/** Processors, and the number that this process may use. */
export async function probeCpu(machine: Machine): Promise<Cpu> {
  const reader = new EvidenceReader(machine);
  const text = (await reader.text("/proc/cpuinfo")) ?? "";
  const processors = text
    .split(/\n\s*\n/)
    .map(fieldsOf)
    .filter((fields) => fields.has("processor"));
  const [first] = processors;
  const model = first?.get("model name") ?? (await reader.text("/proc/device-tree/model"));
  const flags = new Set((first?.get("flags") ?? first?.get("Features") ?? "").split(" "));
  const threads = processors.length === 0 ? null : processors.length;
  const coreOf = coresIn(processors) ?? (await coresInTopology(reader));
  const cores = coreOf.size === 0 ? null : new Set(coreOf.values()).size;
  if (threads !== null) reader.note("/proc/cpuinfo", `${threads} processors, ${model ?? "without a name"}`);
  const allowedList = fieldsOf((await reader.text("/proc/self/status")) ?? "").get("Cpus_allowed_list");
  const allowed = listed(allowedList);
  const fast = await fastProcessors(reader, coreOf);
  const engineCores = countOf(coreOf, allowed, fast);
  return {
    model: model ?? null,
    architecture: machine.architecture,
    cores,
    ...(engineCores === 0 || engineCores === cores ? {} : { engine_cores: engineCores }),
    threads,
    usable: await usable(reader, threads, allowedList, allowed),
    features: wanted.filter((feature) => flags.has(feature)),
    evidence: reader.evidence,
  };
}

/** The core of each processor, by its number. */
type CoreOf = ReadonlyMap<number, string>;

function coresIn(processors: readonly ReadonlyMap<string, string>[]): CoreOf | undefined {
  const cores = new Map<number, string>();
  for (const fields of processors) {
    const core = fields.get("core id");
    if (core === undefined) return undefined;
    cores.set(Number(fields.get("processor")), `${fields.get("physical id") ?? ""}:${core}`);
  }
  return cores.size === 0 ? undefined : cores;
}

/** The cores where /proc/cpuinfo does not have them, as on ARM. */
async function coresInTopology(reader: EvidenceReader): Promise<CoreOf> {
  const cores = new Map<number, string>();
  for (const name of await reader.names(directory)) {
    if (!/^cpu\d+$/.test(name)) continue;
    const threads = await reader.text(`${directory}/${name}/topology/thread_siblings_list`);
    if (threads !== undefined) cores.set(Number(name.slice(3)), threads);
  }
  return cores;
}

/**
 * The processors of the faster kind, where there are two kinds; undefined: one kind. All threads of llama.cpp wait for
 * the slowest one. Intel lists its fast ones (Documentation/ABI, `cpu_core/cpus` of the hybrid performance counters);
 * elsewhere the scheduler's capacity tells them apart (Documentation/scheduler/sched-capacity.rst).
 */
async function fastProcessors(reader: EvidenceReader, coreOf: CoreOf): Promise<ReadonlySet<number> | undefined> {
  const source = "/sys/devices/cpu_core/cpus";
  const named = listed(await reader.text(source));
  if (named !== undefined) {
    reader.note(source, `${named.size} processors of fast cores`);
    return named;
  }
  const capacities = new Map<number, number>();
  for (const id of coreOf.keys()) {
    const capacity = await reader.count(`${directory}/cpu${id}/cpu_capacity`);
    if (capacity === undefined) return undefined;
    capacities.set(id, capacity);
  }
  const most = Math.max(...capacities.values());
  // Clusters that differ a little, such as by their clock, are one kind.
  const fast = [...capacities].filter(([, capacity]) => capacity * 4 >= most * 3).map(([id]) => id);
  if (fast.length === capacities.size) return undefined;
  reader.note(`${directory}/cpu*/cpu_capacity`, `${fast.length} fast processors of ${capacities.size}`);
  return new Set(fast);
}

/** Cores with a processor that may be used and is fast; without a fast one those that may be used. */
function countOf(
  coreOf: CoreOf,
  allowed: ReadonlySet<number> | undefined,
  fast: ReadonlySet<number> | undefined,
): number {
  const mine = [...coreOf].filter(([id]) => allowed === undefined || allowed.has(id));
  const best = mine.filter(([id]) => fast === undefined || fast.has(id));
  return new Set((best.length === 0 ? mine : best).map(([, core]) => core)).size;
}

async function usable(
  reader: EvidenceReader,
  threads: number | null,
  list: string | undefined,
  allowed: ReadonlySet<number> | undefined,
): Promise<number | null> {
  if (allowed !== undefined && threads !== null && allowed.size < threads)
    reader.note("/proc/self/status", `Cpus_allowed_list ${list}: ${allowed.size} of ${threads}`);
  const limit = await cpuLimit(reader);
  if (limit !== undefined) reader.note(limit.source, `allows ${limit.value} cores`);
  const least = Math.min(threads ?? Infinity, allowed?.size ?? Infinity, limit?.value ?? Infinity);
  return Number.isFinite(least) ? least : null;
}

/** The numbers of a list such as `0-3,8`; undefined for any other text. */
function listed(list: string | undefined): ReadonlySet<number> | undefined {
  if (list === undefined) return undefined;
  const numbers = new Set<number>();
  for (const range of list.split(",")) {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(range.trim());
    if (match === null) return undefined;
    for (let id = Number(match[1]); id <= Number(match[2] ?? match[1]); id++) numbers.add(id);
  }
  return numbers.size > 0 ? numbers : undefined;
}
