import type { Machine } from "./machine.ts";
import { addressOf } from "./nvidia.ts";
import { countIn, fieldsOf } from "./evidence-reader.ts";

/** The memory that one process holds on one GPU. */
export interface Holding {
  readonly pid: number;
  /** PCI address, as in the probe. */
  readonly device: string;
  readonly bytes: number;
}

/** nvidia-smi may hang with its driver. */
const limitMs = 5000;
const mebibyte = 1024 ** 2;
/** Drivers are opened first; later descriptors are connections, and there may be thousands. */
const mostDescriptors = 512;
const units: Readonly<Record<string, number>> = { "": 1, KiB: 1024, MiB: mebibyte };

/**
 * The GPU memory that processes hold now: of NVIDIA every process, of AMD and Intel those of `pids`, as far as this
 * user may read. Never rejects: unreadable figures are missing.
 */
export async function gpuHoldings(
  machine: Machine,
  pids: readonly number[],
  signal: AbortSignal,
): Promise<readonly Holding[]> {
  const [hasNvidia, renderNodes] = await Promise.all([
    machine.node("/dev/nvidiactl").then(
      (node) => node !== undefined,
      () => false,
    ),
    machine.names("/sys/class/drm").then(
      (names) => names.some((name) => name.startsWith("renderD")),
      () => false,
    ),
  ]);
  const found = await Promise.all([
    hasNvidia ? nvidiaHoldings(machine, signal) : [],
    ...(renderNodes ? pids.map((pid) => drmHoldings(machine, pid)) : []),
  ]);
  return found.flat();
}

/** Lines such as `00000000:00:06.0, 742, 9374`, in MiB. */
async function nvidiaHoldings(machine: Machine, stop: AbortSignal): Promise<readonly Holding[]> {
  const query = ["--query-compute-apps=gpu_bus_id,pid,used_memory", "--format=csv,noheader,nounits"];
  const signal = AbortSignal.any([stop, AbortSignal.timeout(limitMs)]);
  const text = await machine.run("nvidia-smi", query, signal).catch(() => "");
  return text.split("\n").flatMap((line) => {
    const [bus = "", pid, used] = line.split(",").map((field) => field.trim());
    const [id, bytes] = [countIn(pid), countIn(used, mebibyte)];
    return id === undefined || bytes === undefined ? [] : [{ pid: id, device: addressOf(bus), bytes }];
  });
}

/**
 * From the kernel's report on each of its open render nodes (https://docs.kernel.org/gpu/drm-usage-stats.html). Several
 * descriptors may belong to one client, which counts once.
 */
async function drmHoldings(machine: Machine, pid: number): Promise<readonly Holding[]> {
  const directory = `/proc/${pid}/fdinfo`;
  const clients = new Map<string, Holding>();
  const names = await machine.names(directory).catch(() => []);
  for (const name of names.slice(0, mostDescriptors)) {
    const fields = fieldsOf((await machine.text(`${directory}/${name}`).catch(() => undefined)) ?? "");
    const device = fields.get("drm-pdev");
    if (device === undefined) continue;
    const bytes = bytesOf(fields);
    if (bytes > 0) clients.set(`${device} ${fields.get("drm-client-id") ?? name}`, { pid, device, bytes });
  }
  const devices = new Map<string, number>();
  for (const { device, bytes } of clients.values()) devices.set(device, (devices.get(device) ?? 0) + bytes);
  return [...devices].map(([device, bytes]) => ({ pid, device, bytes }));
}

/** The GPU's own memory and, mapped for it, the machine's; a GPU without memory of its own uses only the machine's. */
function bytesOf(fields: ReadonlyMap<string, string>): number {
  const regions = new Map<string, number>();
  // Kernels before 6.8 have `memory` alone; resident memory is less than the requested memory.
  for (const kind of ["total", "memory", "resident"]) {
    for (const [key, value] of fields) {
      const [, region] = new RegExp(`^drm-${kind}-(.+)$`).exec(key) ?? [];
      const [, digits, unit = ""] = /^(\d+) ?(KiB|MiB)?$/.exec(value) ?? [];
      if (region !== undefined && digits !== undefined) regions.set(region, Number(digits) * (units[unit] ?? 1));
    }
  }
  const hasOwn = [...regions.keys()].some((region) => /^(vram|local)\d*$/.test(region));
  const counted = hasOwn ? /^(vram|local|gtt)\d*$/ : /^(gtt|system|stolen)/;
  let sum = 0;
  for (const [region, bytes] of regions) if (counted.test(region)) sum += bytes;
  return sum;
}
