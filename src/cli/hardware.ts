import type { Hardware } from "../api/hardware.ts";
import { bytes, cell, renderOne } from "./output.ts";
import type { Received } from "./received.ts";

type Machine = Received<Hardware>;
type Item<K extends "gpus" | "disks" | "drivers" | "devices"> = NonNullable<Machine[K]>[number];
type Evidence = NonNullable<Item<"gpus">["evidence"]>[number];
interface Evident {
  readonly evidence?: readonly Evidence[] | null | undefined;
}

const list = (words: readonly string[] | null | undefined): string => words?.map(cell).join(" ") ?? "";

/**
 * The answer of `/api/hardware` for a person; `wide` adds the source of each fact. Throws nothing: a missing fact is a
 * dash.
 */
export async function hardwareText(hardware: Machine, format: "table" | "wide" | "json" | "yaml"): Promise<string> {
  if (format === "json" || format === "yaml") return await renderOne(hardware, format);
  const isWide = format === "wide";
  const { npu } = hardware;
  const [cpu, memory] = [hardware.cpu ?? {}, hardware.memory ?? {}];
  const lines = [
    ...part("cpu", cpuLine(cpu), isWide ? cpu : {}),
    ...part("memory", memoryLine(memory), isWide ? memory : {}),
    ...several("gpu", hardware.gpus ?? [], gpuLine, isWide),
    ...several("npu", npu === null || npu === undefined ? [] : [npu], npuLine, isWide),
    ...several("disk", hardware.disks ?? [], diskLine, isWide),
    ...several("driver", hardware.drivers ?? [], (row) => driverLine(row, isWide), false),
    ...several("device", hardware.devices ?? [], deviceLine, false),
    ...(hardware.problems ?? []).flatMap((row) => part("problem", evidenceLine(row), {})),
    "",
    ...suggestions(hardware.suggested ?? {}, isWide),
    "",
    `looked at ${cell(hardware.probed_at)} as ${cell(hardware.user)}, kernel ${cell(hardware.kernel)}`,
  ];
  return `${lines.join("\n")}\n`;
}

function part(title: string, text: string, { evidence }: Evident): string[] {
  return [`${title.padEnd(10)}${text}`, ...(evidence ?? []).map((row) => `${"".padEnd(12)}${evidenceLine(row)}`)];
}

function several<Row extends object>(
  title: string,
  all: readonly Row[],
  line: (row: Row) => string,
  isWide: boolean,
): string[] {
  if (all.length === 0) return part(title, "none", {});
  return all.flatMap((row) => part(title, line(row), isWide ? row : {}));
}

function evidenceLine({ source, says }: Evidence): string {
  return `${cell(source)}: ${cell(says)}`;
}

function cpuLine(cpu: NonNullable<Machine["cpu"]>): string {
  const { usable, threads } = cpu;
  const limited = usable === threads ? "" : `, ${cell(usable)} of them to be used`;
  const features = list(cpu.features);
  const counts = `${cell(cpu.cores)} cores, ${cell(threads)} threads${limited}`;
  return `${cell(cpu.model)} (${cell(cpu.architecture)}), ${counts}${features === "" ? "" : `; ${features}`}`;
}

function memoryLine(memory: NonNullable<Machine["memory"]>): string {
  const limit = memory.limit_bytes;
  const limited = limit === null || limit === undefined ? "" : `, limited to ${bytes(limit)}`;
  const swap = memory.swap_bytes === 0 ? "no swap" : `${bytes(memory.swap_bytes)} swap`;
  return `${bytes(memory.total_bytes)}${limited}, ${bytes(memory.available_bytes)} available, ${swap}`;
}

function gpuLine(gpu: Item<"gpus">): string {
  const name = typeof gpu.name === "string" ? cell(gpu.name) : `${cell(gpu.vendor)} ${cell(gpu.device_id)}`;
  const memory = [
    ...(typeof gpu.memory_bytes === "number" ? [`${bytes(gpu.memory_bytes)}${roomOf(gpu)}`] : []),
    ...(typeof gpu.shared_memory_bytes === "number" ? [`${bytes(gpu.shared_memory_bytes)} shared`] : []),
  ];
  const architecture = typeof gpu.architecture === "string" ? [cell(gpu.architecture)] : [];
  if (typeof gpu.compute_capability === "string")
    architecture.push(`compute capability ${cell(gpu.compute_capability)}`);
  if (typeof gpu.cuda_version === "string") architecture.push(`CUDA ${cell(gpu.cuda_version)}`);
  if (gpu.mig === true) architecture.push("divided by MIG");
  const driver = gpu.driver === null ? "no driver" : `driver ${cell(gpu.driver)}`;
  const backends = list(gpu.backends) || "no backend";
  return `${cell(gpu.id)} ${[name, ...architecture, ...memory, driver, backends].join(", ")}`;
}

function roomOf(gpu: Item<"gpus">): string {
  const known = [
    ...(typeof gpu.memory_usable_bytes === "number" ? [`${bytes(gpu.memory_usable_bytes)} usable`] : []),
    ...(typeof gpu.memory_free_bytes === "number" ? [`${bytes(gpu.memory_free_bytes)} free`] : []),
  ];
  return known.length === 0 ? "" : ` (${known.join(", ")})`;
}

function npuLine(npu: NonNullable<Machine["npu"]>): string {
  const name = typeof npu.name === "string" ? cell(npu.name) : `${cell(npu.vendor)} ${cell(npu.device_id)}`;
  const driver = npu.driver === null ? "no driver" : `driver ${cell(npu.driver)}`;
  return `${name}, ${driver}, ${npu.device === null ? "no device" : cell(npu.device)}`;
}

function diskLine(disk: Item<"disks">): string {
  const room = `${bytes(disk.free_bytes)} free of ${bytes(disk.total_bytes)}`;
  return `${cell(disk.use)}: ${room} (${cell(disk.path)})`;
}

function driverLine(driver: Item<"drivers">, isWide: boolean): string {
  const version = driver.version === null ? "" : ` ${cell(driver.version)}`;
  return `${cell(driver.name)}${version}${isWide ? ` (${cell(driver.source)})` : ""}`;
}

function deviceLine(device: Item<"devices">): string {
  const group = device.group === null ? cell(device.gid) : cell(device.group);
  const problem = device.problem === null ? "" : `: ${cell(device.problem)}`;
  return `${cell(device.path)} ${cell(device.mode)} ${group}${problem}`;
}

function suggestions(suggested: NonNullable<Machine["suggested"]>, isWide: boolean): string[] {
  const entries = Object.entries(suggested);
  const width = (texts: readonly string[]): number => Math.max(...texts.map(({ length }) => length)) + 2;
  const first = width(["ENGINE", ...entries.map(([engine]) => engine)]);
  const second = width(["BACKEND", ...entries.map(([, each]) => cell(each?.backend))]);
  return [
    `${"ENGINE".padEnd(first)}${"BACKEND".padEnd(second)}WHY`,
    ...entries.flatMap(([engine, each]) => {
      const { backend, reason, obstacles, evidence } = each ?? {};
      const why = [cell(reason), ...(obstacles ?? []).map((obstacle) => `but ${cell(obstacle)}`)].join(", ");
      return [
        `${engine.padEnd(first)}${cell(backend).padEnd(second)}${why}`,
        ...(isWide ? (evidence ?? []).map((seen) => `${"".padEnd(first)}${evidenceLine(seen)}`) : []),
      ];
    }),
  ];
}
