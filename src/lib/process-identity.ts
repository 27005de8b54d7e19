import { readFileSync } from "node:fs";

/**
 * Start time of a process in clock ticks since boot, or undefined when it is gone; a zombie is gone. With the pid and
 * the boot id it names one process for ever: pids are used again.
 * Fields 3 and 22 of /proc/PID/stat: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
 */
export function startTimeOf(pid: number): string | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined;
  }
  // The command's name may itself hold spaces and parentheses: fields count from the last one.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const state = fields[0];
  return state === undefined || state === "Z" || state === "X" || state === "x" ? undefined : fields[19];
}
