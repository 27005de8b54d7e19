import { readdirSync, readFileSync, writeFileSync } from "node:fs";

/** Clock ticks per second of /proc on Linux, on every architecture that Node runs on (proc(5), USER_HZ). */
const ticksPerSecond = 100;

/** Seconds of CPU that a process has used, in user and kernel mode. */
export function cpuSeconds(pid: number): number {
  const [own] = ticksOf(pid) ?? [0];
  return own / ticksPerSecond;
}

/**
 * Seconds that the present threads of a process have run, by the scheduler's own clock. The ticks of `cpuSeconds` count a
 * whole tick for what runs at its end, and work that a timer starts often does: a process at rest seems half as busy again.
 * https://docs.kernel.org/scheduler/sched-stats.html
 */
export function scheduledSeconds(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, task) => {
    const [nanoseconds = "0"] = readOr(`/proc/${pid}/task/${task}/schedstat`).split(" ");
    return sum + Number(nanoseconds) / 1e9;
  }, 0);
}

export function residentBytes(pid: number): number {
  return statusBytes(pid, "VmRSS");
}

/** Memory of a process and its children by its share of each page (PSS): what pages they have in common counts once. */
export function proportionalBytes(pid: number): number {
  const of = (each: number | string): number =>
    Number(/^Pss:\s+(\d+) kB/m.exec(readOr(`/proc/${each}/smaps_rollup`))?.[1] ?? 0) * 1024;
  const children = readOr(`/proc/${pid}/task/${pid}/children`).split(" ");
  return children.filter((child) => child !== "").reduce((sum, child) => sum + of(child), of(pid));
}

/** The largest resident size since `resetPeak`. */
export function peakBytes(pid: number): number {
  return statusBytes(pid, "VmHWM");
}

export function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** How often the process gave up the CPU to wait: timers and polling show here. */
export function voluntarySwitches(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, task) => {
    const text = readOr(`/proc/${pid}/task/${task}/status`);
    return sum + Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(text)?.[1] ?? 0);
  }, 0);
}

function statusBytes(pid: number, field: string): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0) * 1024;
}

/** Own ticks, ticks of children that were waited for, and the parent's pid; undefined for a process that is gone. */
function ticksOf(pid: number | string): [own: number, waited: number, parent: number] | undefined {
  const text = readOr(`/proc/${pid}/stat`);
  if (text === "") return undefined;
  // The name may hold blanks and brackets; the fields that matter come after the last one.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const at = (index: number): number => Number(fields[index] ?? 0);
  return [at(11) + at(12), at(13) + at(14), at(1)];
}

function readOr(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

interface Reading {
  readonly atMs: number;
  readonly busyTicks: number;
  readonly ourTicks: number;
}

/** How much CPU others took, in cores, since it was made. Ours are this process and whatever descends from it. */
export class NoiseMeter {
  readonly #began = read();

  othersCores(): number {
    const now = read();
    const ticks = now.busyTicks - this.#began.busyTicks - (now.ourTicks - this.#began.ourTicks);
    return Math.max(0, ticks / ticksPerSecond / Math.max(0.001, (now.atMs - this.#began.atMs) / 1000));
  }
}

function read(): Reading {
  // user, nice, system: time in interrupts belongs to nobody in particular.
  const [, user = 0, nice = 0, system = 0] = (readOr("/proc/stat").split("\n")[0] ?? "").split(/\s+/).map(Number);
  const parents = new Map<string, string>();
  const ticks = new Map<string, number>();
  for (const pid of readdirSync("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const found = ticksOf(pid);
    if (found === undefined) continue;
    parents.set(pid, String(found[2]));
    ticks.set(pid, found[0] + found[1]);
  }
  let ourTicks = 0;
  for (const [pid, count] of ticks) {
    let at: string | undefined = pid;
    while (at !== undefined && at !== "0" && at !== String(process.pid)) at = parents.get(at);
    // With those of children that are gone: their time moves to whoever waited for them.
    if (at === String(process.pid)) ourTicks += count;
  }
  return { atMs: performance.now(), busyTicks: user + nice + system, ourTicks };
}
