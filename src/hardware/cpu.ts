import type { Cpu } from "../api/hardware.ts";
import { cpuLimit } from "./cgroup.ts";
import type { Machine } from "./machine.ts";
import { fieldsOf, Witness } from "./witness.ts";

/** Instruction sets for which llama.cpp has code of its own (its CMake options), as /proc/cpuinfo spells them. */
const wanted = (
  "sse4_2 avx f16c fma bmi2 avx2 avx_vnni avx512f avx512vbmi avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16 " +
  "asimd asimddp i8mm bf16 sve sve2 sme"
).split(" ");

/** Processors, and how many of them this process may use. */
export async function lookAtCpu(machine: Machine): Promise<Cpu> {
  const witness = new Witness(machine);
  const text = (await witness.text("/proc/cpuinfo")) ?? "";
  const processors = text
    .split(/\n\s*\n/)
    .map(fieldsOf)
    .filter((fields) => fields.has("processor"));
  const [first] = processors;
  const model = first?.get("model name") ?? (await witness.text("/proc/device-tree/model"));
  const flags = new Set((first?.get("flags") ?? first?.get("Features") ?? "").split(" "));
  const threads = processors.length === 0 ? null : processors.length;
  const cores = coresIn(processors) ?? (await coresInTopology(witness));
  if (threads !== null) witness.note("/proc/cpuinfo", `${threads} processors, ${model ?? "without a name"}`);
  return {
    model: model ?? null,
    architecture: machine.architecture,
    cores: cores ?? null,
    threads,
    usable: await usable(witness, threads),
    features: wanted.filter((feature) => flags.has(feature)),
    evidence: witness.evidence,
  };
}

function coresIn(processors: readonly ReadonlyMap<string, string>[]): number | undefined {
  const cores = new Set<string>();
  for (const fields of processors) {
    const core = fields.get("core id");
    if (core === undefined) return undefined;
    cores.add(`${fields.get("physical id") ?? ""}:${core}`);
  }
  return cores.size === 0 ? undefined : cores.size;
}

/** Where /proc/cpuinfo does not tell, as on ARM. */
async function coresInTopology(witness: Witness): Promise<number | undefined> {
  const directory = "/sys/devices/system/cpu";
  const cores = new Set<string>();
  for (const name of await witness.names(directory)) {
    if (!/^cpu\d+$/.test(name)) continue;
    const threads = await witness.text(`${directory}/${name}/topology/thread_siblings_list`);
    if (threads !== undefined) cores.add(threads);
  }
  return cores.size === 0 ? undefined : cores.size;
}

async function usable(witness: Witness, threads: number | null): Promise<number | null> {
  const status = fieldsOf((await witness.text("/proc/self/status")) ?? "");
  const list = status.get("Cpus_allowed_list");
  const allowed = list === undefined ? undefined : countOfList(list);
  if (allowed !== undefined && threads !== null && allowed < threads)
    witness.note("/proc/self/status", `Cpus_allowed_list ${list}: ${allowed} of ${threads}`);
  const limit = await cpuLimit(witness);
  if (limit !== undefined) witness.note(limit.source, `allows ${limit.value} cores`);
  const least = Math.min(threads ?? Infinity, allowed ?? Infinity, limit?.value ?? Infinity);
  return Number.isFinite(least) ? least : null;
}

/** How many a list such as `0-3,8` names; undefined where it is none. */
function countOfList(list: string): number | undefined {
  let count = 0;
  for (const range of list.split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(range.trim());
    if (match === null) return undefined;
    count += Number(match[2] ?? match[1]) - Number(match[1]) + 1;
  }
  return count > 0 ? count : undefined;
}
