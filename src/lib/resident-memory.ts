import { readFileSync } from "node:fs";
import { uptime } from "node:os";
import { readProc } from "./process-identity.ts";

/** Clock ticks per second of /proc on Linux, on every architecture that Node runs on (proc(5), USER_HZ). */
const ticksPerSecond = 100;
/** The difference between a recorded start time and the kernel's; the clock may have been set meanwhile. */
const toleranceMs = 5000;

/**
 * Bytes of memory that a process holds now, with its mapped files (VmRSS of proc(5)). Undefined where they cannot be
 * known: the process is gone, or the process with its pid here was not started at that time, as in another pid
 * namespace.
 */
export function residentBytes(pid: number, startedAt: Date): number | undefined {
  try {
    const entry = readProc(pid);
    if (entry === undefined) return undefined;
    const bootedAt = Date.now() - uptime() * 1000;
    const beganAt = bootedAt + (Number(entry.startTime) / ticksPerSecond) * 1000;
    if (Math.abs(beganAt - startedAt.getTime()) > toleranceMs) return undefined;
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}
