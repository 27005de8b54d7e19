import { closeSync, openSync, readlinkSync, readSync } from "node:fs";
import { isShortage } from "./error-code.ts";

/** A process as /proc shows it. */
export interface ProcEntry {
  readonly pid: number;
  /** 1, or a process that adopts orphans, once the process that forked it is gone. */
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** Clock ticks since boot. With the pid and the boot id it names one process for ever: pids are reused. */
  readonly startTime: string;
  readonly isZombie: boolean;
}

/**
 * Undefined when the process is gone. Zombies count as present: a child that ended at once still has its start time.
 * Throws where /proc cannot be read for want of a descriptor or memory: that does not mean that the process is gone.
 * Fields 3 to 6 and 22 of /proc/PID/stat: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
 */
export function readEntry(pid: number): ProcEntry | undefined {
  const text = readStat(pid);
  if (text === undefined) return undefined;
  // The command's name may hold spaces and parentheses: fields count from the last parenthesis.
  const [state, parent, group, session, ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const startTime = rest[15];
  if (startTime === undefined) return undefined;
  const isZombie = state === "Z" || state === "X" || state === "x";
  return { pid, parent: Number(parent), group: Number(group), session: Number(session), startTime, isZombie };
}

const statBuffer = Buffer.alloc(2048);

/**
 * In one read, since the kernel writes it whole, some three hundred bytes; a scan of all processes consists of these.
 */
function readStat(pid: number): string | undefined {
  try {
    const file = openSync(`/proc/${pid}/stat`, "r");
    try {
      return statBuffer.toString("latin1", 0, readSync(file, statBuffer));
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (isShortage(error)) throw error;
    return undefined;
  }
}

/** Undefined when the process is gone; a zombie is gone. */
export function readProc(pid: number): ProcEntry | undefined {
  const entry = readEntry(pid);
  return entry?.isZombie === true ? undefined : entry;
}

/** Start time of a process in clock ticks since boot, or undefined when it is gone; a zombie is gone. */
export function startTimeOf(pid: number): string | undefined {
  return readProc(pid)?.startTime;
}

/** Identifies the pid namespace of this process: pids of another namespace mean nothing here. */
export function pidNamespace(): string {
  return readlinkSync("/proc/self/ns/pid");
}
