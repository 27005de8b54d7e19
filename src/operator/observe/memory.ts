import type { PublishedSlot, SlotStatus } from "../../api/status.ts";
import { everySecond } from "../../lib/pulse.ts";
import { residentBytes } from "../../lib/resident-memory.ts";
import type { Measured, SlotMemories } from "../slot-memory.ts";

/** The memory of one process on one GPU. */
interface Holding {
  readonly pid: number;
  readonly device: string;
  readonly bytes: number;
}

/** The present memory of processes on GPUs: at least of those pids, as far as it is readable. Never rejects. */
export type GpuHoldings = (pids: readonly number[], signal: AbortSignal) => Promise<readonly Holding[]>;
type Memory = NonNullable<SlotStatus["memory"]>;
/** Whether a process of this machine belongs to an engine. */
type Owns = (engine: SlotStatus["processes"][number], pid: number) => boolean;

/** Seconds between two measurements. */
const rest = 10;
/** A change below both of these is not published: every status write reaches every gateway. */
const newsBytes = 64 * 1024 ** 2;
const newsPart = 0.05;

/** The memory of each slot's processes, measured while any runs: on a GPU, and on the host as far as it is known. */
export class MemoryRecords implements Disposable {
  readonly #holdings: GpuHoldings;
  readonly #published: ReadonlyMap<string, PublishedSlot>;
  readonly #owns: Owns;
  readonly #memories: SlotMemories;
  readonly #closing = new AbortController();
  #onChange: (slot: string) => void = () => undefined;
  #beats: Disposable | undefined;
  #measuring: Promise<void> | undefined;

  constructor(
    holdings: GpuHoldings,
    published: ReadonlyMap<string, PublishedSlot>,
    owns: Owns,
    memories: SlotMemories,
  ) {
    this.#holdings = holdings;
    this.#memories = memories;
    this.#owns = owns;
    this.#published = published;
    for (const [name, { status }] of published) memories.of(name).reported = status.memory;
  }

  of(slot: string): Memory | undefined {
    return this.#memories.of(slot).reported;
  }

  /** This operator's last measurement: the published one may be older, after small changes. */
  latest(slot: string): Measured | undefined {
    return this.#memories.of(slot).measured;
  }

  /** Starts to measure every ten seconds. Calls `onSlot` when a slot's memory has changed notably. One watcher. */
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

  /** Measures now, once for all concurrent callers. */
  async measure(): Promise<void> {
    this.#measuring ??= this.#measure().finally(() => {
      this.#measuring = undefined;
    });
    await this.#measuring;
  }

  async #measure(): Promise<void> {
    const running = [...this.#published.values()].filter(({ status }) => status.processes.length > 0);
    const names = new Set(running.map(({ name }) => name));
    for (const [name, memory] of this.#memories.all()) {
      if (names.has(name)) continue;
      memory.reported = undefined;
      memory.measured = undefined;
    }
    if (running.length === 0) return;
    const begun = new Date();
    const pids = running.flatMap(({ status }) => status.processes.flatMap(({ pid }) => pid ?? []));
    const holdings = await this.#holdings(pids, this.#closing.signal);
    if (this.#closing.signal.aborted) return;
    for (const { name, status } of running) {
      const memory = this.#memoryOf(status.processes, holdings);
      const known = this.#memories.of(name);
      known.measured = { memory, at: begun };
      if (memory === undefined || !isNews(known.reported, memory)) continue;
      known.reported = memory;
      this.#onChange(name);
    }
  }

  #memoryOf(processes: SlotStatus["processes"], holdings: readonly Holding[]): Memory | undefined {
    const devices = new Map<string, number>();
    for (const { pid, device, bytes } of holdings)
      if (processes.some((process) => this.#owns(process, pid)))
        devices.set(device, (devices.get(device) ?? 0) + bytes);
    const resident = processes.flatMap(({ pid, startedAt }) =>
      pid === undefined || startedAt === undefined ? [] : (residentBytes(pid, new Date(startedAt)) ?? []),
    );
    if (devices.size === 0 && resident.length === 0) return undefined;
    return {
      ...(resident.length === 0 ? {} : { hostBytes: resident.reduce((sum, bytes) => sum + bytes, 0) }),
      devices: [...devices].map(([id, bytes]) => ({ id, bytes })),
    };
  }
}

/** Whether two sizes differ by more than 64 MiB and more than 5 %. */
export function isNotable(one: number, other: number): boolean {
  return Math.abs(one - other) > Math.max(newsBytes, newsPart * Math.max(one, other));
}

function isNews(before: Memory | undefined, now: Memory): boolean {
  if (before === undefined || before.devices.length !== now.devices.length) return true;
  return (
    isNotable(before.hostBytes ?? 0, now.hostBytes ?? 0) ||
    now.devices.some(({ id, bytes }) => isNotable(before.devices.find((known) => known.id === id)?.bytes ?? 0, bytes))
  );
}
