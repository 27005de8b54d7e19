import type { MachineReading } from "../api/machine-reading.ts";
import { countIn, fieldsOf } from "./evidence-reader.ts";
import type { Machine } from "./machine.ts";
import { addressOf } from "./nvidia.ts";
import { addressIn } from "./pci.ts";

type GpuReading = MachineReading["gpus"][number];

/** nvidia-smi takes 0.03 s, and may hang with its driver. */
const limitMs = 3000;
/** A program that hangs in its driver cannot be killed: it is not asked again at once. */
const failedPauseMs = 60_000;
/** After a longer time the share of the processors would tell nothing of now. */
const longestSpanMs = 60_000;
const mebibyte = 1024 ** 2;
/** Every driver knows these fields. Memory used is without the part that the driver keeps. */
const query = "--query-gpu=pci.bus_id,memory.total,memory.used,utilization.gpu,temperature.gpu";

interface CpuTicks {
  readonly atMs: number;
  readonly all: number;
  readonly idle: number;
}

/**
 * Reads how busy the machine is: /proc, one run of `nvidia-smi` where there is an NVIDIA GPU, and the files of AMD's
 * driver. Never rejects; one reading at a time. (https://docs.kernel.org/gpu/amdgpu/driver-misc.html)
 */
export class MachineReader {
  readonly #machine: Machine;
  #ticks: CpuTicks | undefined;
  #smiAfterMs = 0;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  async read(): Promise<MachineReading> {
    const now = this.#machine.now();
    const [cpu, memory, nvidia, others] = await Promise.all([
      this.#cpuPercent(now.getTime()),
      this.#memory(),
      this.#nvidia(now.getTime()),
      this.#others(),
    ]);
    return { read_at: now.toISOString(), cpu_percent: cpu, memory, gpus: [...nvidia, ...others] };
  }

  async #cpuPercent(atMs: number): Promise<number | null> {
    const [line = ""] = (await this.#text("/proc/stat")).split("\n");
    const [name, ...counts] = line.trim().split(/ +/);
    // user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is part of user.
    const ticks = counts.slice(0, 8).map((count) => countIn(count) ?? NaN);
    const all = ticks.reduce((sum, count) => sum + count, 0);
    const now = { atMs, all, idle: (ticks[3] ?? 0) + (ticks[4] ?? 0) };
    const before = this.#ticks;
    this.#ticks = name === "cpu" && Number.isFinite(all) ? now : undefined;
    if (this.#ticks === undefined || before === undefined || atMs - before.atMs > longestSpanMs) return null;
    const span = now.all - before.all;
    return span <= 0 ? null : inPercent(100 * (1 - (now.idle - before.idle) / span));
  }

  async #memory(): Promise<MachineReading["memory"]> {
    const fields = fieldsOf(await this.#text("/proc/meminfo"));
    const bytes = (field: string): number | undefined => countIn(fields.get(field)?.replace(/ kB$/, ""), 1024);
    const [total, free] = [bytes("MemTotal"), bytes("MemAvailable")];
    const used = total === undefined || free === undefined ? null : Math.max(0, total - free);
    return { used_bytes: used, free_bytes: free ?? null };
  }

  async #nvidia(nowMs: number): Promise<readonly GpuReading[]> {
    if (nowMs < this.#smiAfterMs) return [];
    const hasNvidia = await this.#machine.node("/dev/nvidiactl").catch(() => undefined);
    if (hasNvidia === undefined) return [];
    const words = [query, "--format=csv,noheader,nounits"];
    const text = await this.#machine.run("nvidia-smi", words, AbortSignal.timeout(limitMs)).catch(() => {
      this.#smiAfterMs = nowMs + failedPauseMs;
      return "";
    });
    return text.split("\n").flatMap((line) => {
      const [bus = "", total, used, busy, celsius] = line.split(",").map((field) => field.trim());
      return bus.includes(":")
        ? [reading(addressOf(bus), countIn(total, mebibyte), countIn(used, mebibyte), countIn(busy), countIn(celsius))]
        : [];
    });
  }

  /** GPUs whose driver has files for it, as AMD's has. */
  async #others(): Promise<readonly GpuReading[]> {
    const names = await this.#machine.names("/sys/class/drm").catch(() => []);
    const nodes = names.filter((name) => /^renderD\d+$/.test(name));
    const found = await Promise.all(nodes.map((node) => this.#other(`/sys/class/drm/${node}`)));
    return found.filter((gpu) => gpu !== undefined);
  }

  async #other(node: string): Promise<GpuReading | undefined> {
    const id = addressIn((await this.#machine.target(node).catch(() => undefined)) ?? "");
    if (id === undefined) return undefined;
    const directory = `/sys/bus/pci/devices/${id}`;
    const count = async (file: string): Promise<number | undefined> =>
      countIn((await this.#text(`${directory}/${file}`)).trim());
    const [monitor] = await this.#machine.names(`${directory}/hwmon`).catch(() => []);
    const [total, used, busy, millidegrees] = await Promise.all([
      count("mem_info_vram_total"),
      count("mem_info_vram_used"),
      count("gpu_busy_percent"),
      monitor === undefined ? undefined : count(`hwmon/${monitor}/temp1_input`),
    ]);
    const celsius = millidegrees === undefined ? undefined : Math.round(millidegrees / 1000);
    const isKnown = [used, busy, celsius].some((figure) => figure !== undefined);
    return isKnown ? reading(id, total, used, busy, celsius) : undefined;
  }

  async #text(path: string): Promise<string> {
    return (await this.#machine.text(path).catch(() => undefined)) ?? "";
  }
}

function reading(id: string, total?: number, used?: number, busy?: number, celsius?: number): GpuReading {
  return {
    id,
    total_bytes: total ?? null,
    used_bytes: used ?? null,
    utilization_percent: busy === undefined ? null : inPercent(busy),
    temperature_celsius: celsius ?? null,
  };
}

function inPercent(share: number): number {
  return Math.min(100, Math.max(0, Math.round(share)));
}
