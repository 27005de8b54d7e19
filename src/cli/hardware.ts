import { bytes, cell, isRecord, recordsIn, renderOne } from "./output.ts";

type Row = Readonly<Record<string, unknown>>;

const list = (value: unknown): string => (Array.isArray(value) ? value.map(cell).join(" ") : "");
const record = (value: unknown): Row => (isRecord(value) ? value : {});

/**
 * The answer of `/api/hardware` for a person; `wide` adds the source of each fact. Throws nothing: a missing fact is a
 * dash.
 */
export async function hardwareText(
  hardware: Readonly<Record<string, unknown>>,
  format: "table" | "wide" | "json" | "yaml",
): Promise<string> {
  if (format === "json" || format === "yaml") return await renderOne(hardware, format);
  const isWide = format === "wide";
  const lines = [
    ...part("cpu", cpuLine(record(hardware["cpu"])), isWide ? record(hardware["cpu"]) : {}),
    ...part("memory", memoryLine(record(hardware["memory"])), isWide ? record(hardware["memory"]) : {}),
    ...several("gpu", recordsIn(hardware["gpus"]), gpuLine, isWide),
    ...several("npu", isRecord(hardware["npu"]) ? [hardware["npu"]] : [], npuLine, isWide),
    ...several("disk", recordsIn(hardware["disks"]), diskLine, isWide),
    ...several("driver", recordsIn(hardware["drivers"]), (row) => driverLine(row, isWide), false),
    ...several("device", recordsIn(hardware["devices"]), deviceLine, false),
    ...recordsIn(hardware["problems"]).flatMap((row) => part("problem", evidenceLine(row), {})),
    "",
    ...suggestions(record(hardware["suggested"]), isWide),
    "",
    `looked at ${cell(hardware["probed_at"])} as ${cell(hardware["user"])}, kernel ${cell(hardware["kernel"])}`,
  ];
  return `${lines.join("\n")}\n`;
}

function part(title: string, text: string, { evidence }: Row): string[] {
  return [`${title.padEnd(10)}${text}`, ...recordsIn(evidence).map((row) => `${"".padEnd(12)}${evidenceLine(row)}`)];
}

function several(title: string, all: readonly Row[], line: (row: Row) => string, isWide: boolean): string[] {
  if (all.length === 0) return part(title, "none", {});
  return all.flatMap((row) => part(title, line(row), isWide ? row : {}));
}

function evidenceLine({ source, says }: Row): string {
  return `${cell(source)}: ${cell(says)}`;
}

function cpuLine(cpu: Row): string {
  const { usable, threads } = cpu;
  const limited = usable === threads ? "" : `, ${cell(usable)} of them to be used`;
  const features = list(cpu["features"]);
  const counts = `${cell(cpu["cores"])} cores, ${cell(threads)} threads${limited}`;
  return `${cell(cpu["model"])} (${cell(cpu["architecture"])}), ${counts}${features === "" ? "" : `; ${features}`}`;
}

function memoryLine(memory: Row): string {
  const limit = memory["limit_bytes"];
  const limited = limit === null || limit === undefined ? "" : `, limited to ${bytes(limit)}`;
  const swap = memory["swap_bytes"] === 0 ? "no swap" : `${bytes(memory["swap_bytes"])} swap`;
  return `${bytes(memory["total_bytes"])}${limited}, ${bytes(memory["available_bytes"])} available, ${swap}`;
}

function gpuLine(gpu: Row): string {
  const name = typeof gpu["name"] === "string" ? cell(gpu["name"]) : `${cell(gpu["vendor"])} ${cell(gpu["device_id"])}`;
  const memory = [
    ...(typeof gpu["memory_bytes"] === "number" ? [`${bytes(gpu["memory_bytes"])}${roomOf(gpu)}`] : []),
    ...(typeof gpu["shared_memory_bytes"] === "number" ? [`${bytes(gpu["shared_memory_bytes"])} shared`] : []),
  ];
  const architecture = typeof gpu["architecture"] === "string" ? [cell(gpu["architecture"])] : [];
  if (typeof gpu["compute_capability"] === "string")
    architecture.push(`compute capability ${cell(gpu["compute_capability"])}`);
  if (typeof gpu["cuda_version"] === "string") architecture.push(`CUDA ${cell(gpu["cuda_version"])}`);
  if (gpu["mig"] === true) architecture.push("divided by MIG");
  const driver = gpu["driver"] === null ? "no driver" : `driver ${cell(gpu["driver"])}`;
  const backends = list(gpu["backends"]) || "no backend";
  return `${cell(gpu["id"])} ${[name, ...architecture, ...memory, driver, backends].join(", ")}`;
}

function roomOf(gpu: Row): string {
  const known = [
    ...(typeof gpu["memory_usable_bytes"] === "number" ? [`${bytes(gpu["memory_usable_bytes"])} usable`] : []),
    ...(typeof gpu["memory_free_bytes"] === "number" ? [`${bytes(gpu["memory_free_bytes"])} free`] : []),
  ];
  return known.length === 0 ? "" : ` (${known.join(", ")})`;
}

function npuLine(npu: Row): string {
  const name = typeof npu["name"] === "string" ? cell(npu["name"]) : `${cell(npu["vendor"])} ${cell(npu["device_id"])}`;
  const driver = npu["driver"] === null ? "no driver" : `driver ${cell(npu["driver"])}`;
  return `${name}, ${driver}, ${npu["device"] === null ? "no device" : cell(npu["device"])}`;
}

function diskLine(disk: Row): string {
  const room = `${bytes(disk["free_bytes"])} free of ${bytes(disk["total_bytes"])}`;
  return `${cell(disk["use"])}: ${room} (${cell(disk["path"])})`;
}

function driverLine(driver: Row, isWide: boolean): string {
  const version = driver["version"] === null ? "" : ` ${cell(driver["version"])}`;
  return `${cell(driver["name"])}${version}${isWide ? ` (${cell(driver["source"])})` : ""}`;
}

function deviceLine(device: Row): string {
  const group = device["group"] === null ? cell(device["gid"]) : cell(device["group"]);
  const problem = device["problem"] === null ? "" : `: ${cell(device["problem"])}`;
  return `${cell(device["path"])} ${cell(device["mode"])} ${group}${problem}`;
}

function suggestions(suggested: Row, isWide: boolean): string[] {
  const entries = Object.entries(suggested);
  const width = (texts: readonly string[]): number => Math.max(...texts.map(({ length }) => length)) + 2;
  const first = width(["ENGINE", ...entries.map(([engine]) => engine)]);
  const second = width(["BACKEND", ...entries.map(([, each]) => cell(record(each)["backend"]))]);
  return [
    `${"ENGINE".padEnd(first)}${"BACKEND".padEnd(second)}WHY`,
    ...entries.flatMap(([engine, each]) => {
      const row = record(each);
      const obstacles = Array.isArray(row["obstacles"]) ? row["obstacles"].map(cell) : [];
      const why = [cell(row["reason"]), ...obstacles.map((obstacle) => `but ${obstacle}`)].join(", ");
      return [
        `${engine.padEnd(first)}${cell(row["backend"]).padEnd(second)}${why}`,
        ...(isWide ? recordsIn(row["evidence"]).map((seen) => `${"".padEnd(first)}${evidenceLine(seen)}`) : []),
      ];
    }),
  ];
}
