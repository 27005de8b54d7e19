import { readFileSync } from "node:fs";
import type { PublishedSlot, SlotStatus } from "../api/status.ts";
import { readEntry } from "../lib/process-identity.ts";
import { everySecond } from "../lib/pulse.ts";
import { residentBytes } from "../lib/resident-memory.ts";

/** What one process holds on one GPU. */
interface Holding {
  readonly pid: number;
  readonly device: string;
  readonly bytes: number;
}

/** What processes hold on GPUs now: at least of those pids, as far as that can be told. Never rejects. */
export type GpuHoldings = (pids: readonly number[], signal: AbortSignal) => Promise<readonly Holding[]>;
type Memory = NonNullable<SlotStatus["memory"]>;

/** Seconds between two looks. */
const rest = 10;
/** Less than both of these is no news: status is written, and told to every gateway, for what people could see. */
const newsBytes = 64 * 1024 ** 2;
const newsPart = 0.05;

/** What the processes of each slot hold, measured while any runs: on a GPU, and on the host as far as that is known. */
export class MemoryBook implements Disposable {
  readonly #holdings: GpuHoldings;
  readonly #published: ReadonlyMap<string, PublishedSlot>;
  readonly #told = new Map<string, Memory>();
  readonly #closing = new AbortController();
  #onChange: (slot: string) => void = () => undefined;
  #beats: Disposable | undefined;
  #measuring: Promise<void> | undefined;

  constructor(holdings: GpuHoldings, published: ReadonlyMap<string, PublishedSlot>) {
    this.#holdings = holdings;
    this.#published = published;
    for (const [name, { status }] of published) if (status.memory !== undefined) this.#told.set(name, status.memory);
  }

  of(slot: string): Memory | undefined {
    return this.#told.get(slot);
  }

  /** Begins to measure every ten seconds. Calls `onSlot` when what a slot holds is worth telling anew. One watcher. */
  watch(onSlot: (slot: string) => void): Disposable {
    this.#onChange = onSlot;
    let seconds = 0;
    this.#beats ??= everySecond(() => {
      seconds = (seconds + 1) % rest;
      if (seconds === 0) void this.measure();
    });
    return this;
  }

  [Symbol.dispose](): void {
    this.#closing.abort();
    this.#beats?.[Symbol.dispose]();
  }

  /** Measures now, once for all who ask meanwhile. */
  async measure(): Promise<void> {
    this.#measuring ??= this.#measure().finally(() => {
      this.#measuring = undefined;
    });
    await this.#measuring;
  }

  async #measure(): Promise<void> {
    const running = [...this.#published.values()].filter(({ status }) => status.processes.length > 0);
    for (const name of this.#told.keys()) if (!running.some((slot) => slot.name === name)) this.#told.delete(name);
    if (running.length === 0) return;
    const pids = running.flatMap(({ status }) => status.processes.flatMap(({ pid }) => pid ?? []));
    const holdings = await this.#holdings(pids, this.#closing.signal);
    if (this.#closing.signal.aborted) return;
    for (const { name, status } of running) {
      const memory = memoryOf(status.processes, holdings);
      if (memory === undefined || !isNews(this.#told.get(name), memory)) continue;
      this.#told.set(name, memory);
      this.#onChange(name);
    }
  }
}

function memoryOf(processes: SlotStatus["processes"], holdings: readonly Holding[]): Memory | undefined {
  const devices = new Map<string, number>();
  for (const { pid, device, bytes } of holdings)
    if (processes.some((process) => isOf(process, pid))) devices.set(device, (devices.get(device) ?? 0) + bytes);
  const resident = processes.flatMap(({ pid, startedAt }) =>
    pid === undefined || startedAt === undefined ? [] : (residentBytes(pid, new Date(startedAt)) ?? []),
  );
  if (devices.size === 0 && resident.length === 0) return undefined;
  return {
    ...(resident.length === 0 ? {} : { hostBytes: resident.reduce((sum, bytes) => sum + bytes, 0) }),
    devices: [...devices].map(([id, bytes]) => ({ id, bytes })),
  };
}

/** The engine's first process, one of its group or session (vLLM has several), or any of its container. */
function isOf({ pid, containerId }: SlotStatus["processes"][number], other: number): boolean {
  if (pid === other) return true;
  try {
    if (pid !== undefined) {
      const entry = readEntry(other);
      return entry?.group === pid || entry?.session === pid;
    }
    return containerId !== undefined && readFileSync(`/proc/${other}/cgroup`, "latin1").includes(containerId);
  } catch {
    return false;
  }
}

function isNews(before: Memory | undefined, now: Memory): boolean {
  if (before === undefined || before.devices.length !== now.devices.length) return true;
  const differs = (one = 0, other = 0): boolean =>
    Math.abs(one - other) > Math.max(newsBytes, newsPart * Math.max(one, other));
  return (
    differs(before.hostBytes, now.hostBytes) ||
    now.devices.some(({ id, bytes }) => differs(before.devices.find((known) => known.id === id)?.bytes, bytes))
  );
}
