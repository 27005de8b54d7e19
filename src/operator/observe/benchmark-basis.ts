import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { BenchmarkBasis } from "../../api/benchmark.ts";
import type { Workload } from "../../api/workload.ts";
import { isRefusal } from "../../engines/engine.ts";
import type { Runtimes } from "../../runtimes/runtime.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import type { SlotInput } from "../plan/input.ts";
import type { Machine } from "../plan/placing.ts";

/**
 * The basis that a benchmark of the slot would depend on now. Undefined where no result is kept or to be kept. The
 * engine and the settings of a slot that is not to be loaded are not known.
 */
export async function benchmarkBasis(
  { machine, runtime }: { readonly machine: Pick<Machine, "facts">; readonly runtime: Pick<Runtimes, "traitsOf"> },
  { before, requests, model, workloads }: Pick<SlotInput, "before" | "requests" | "model" | "workloads">,
): Promise<BenchmarkBasis | undefined> {
  const isRequested = requests.some(({ kind }) => kind === "benchmark");
  if (before?.status.lastBenchmark === undefined && !isRequested) return undefined;
  const main = isRefusal(workloads) ? undefined : workloads.find(({ role }) => role === "main");
  const modelFile = model?.fingerprint ?? model?.sha256;
  const isHere = main === undefined || runtime.traitsOf(main.runtime)?.isElsewhere !== true;
  const hardware = isHere ? hardwareMark(machine.facts?.()) : undefined;
  return {
    ...(modelFile === undefined ? {} : { modelFile }),
    ...(main === undefined ? {} : { engine: await engineMark(main), settings: main.hash }),
    ...(hardware === undefined ? {} : { hardware }),
  };
}

/** Without vendors' programs, whose facts are missing until these were first run. */
function hardwareMark(facts: ReturnType<NonNullable<Machine["facts"]>> | undefined): string | undefined {
  if (facts === undefined) return undefined;
  const { cpu, gpus, drivers = [] } = facts;
  return mark([
    cpu === undefined ? [] : [cpu.model, cpu.threads],
    gpus.map((gpu) => [gpu.id, gpu.vendor_id, gpu.device_id]),
    drivers.filter(({ kind }) => kind === "kernel").map(({ name, version }) => [name, version]),
  ]);
}

/**
 * The image, or the program and the script that it runs with the packages that were installed for the script, by size and
 * time. Other words may be a port.
 */
async function engineMark({ command, container }: Workload): Promise<string> {
  if (container !== undefined) return mark(container.image);
  const flag = command.findIndex((word) => word.startsWith("-"));
  const words = flag === -1 ? command : command.slice(0, flag);
  const program = words.filter((word, index) => index === 0 || word.startsWith("/"));
  const files = program.map(async (word) => {
    const found = word.startsWith("/") ? await stat(word).catch(() => undefined) : undefined;
    return found === undefined ? [word] : [word, found.size, found.mtimeMs];
  });
  const installed = program.slice(1).map(async (script) => {
    const lock = join(dirname(script), "../node_modules/.package-lock.json");
    const found = await stat(lock).catch(() => undefined);
    return found === undefined ? [] : [[lock, found.size, found.mtimeMs]];
  });
  return mark([...(await Promise.all(files)), ...(await Promise.all(installed)).flat()]);
}

function mark(value: unknown): string {
  return sha256(canonicalJson(value)).slice(0, 16);
}
