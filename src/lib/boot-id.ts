import { readFileSync } from "node:fs";

let known: string | undefined;

/** Identifies this boot of the kernel: what was true before a reboot carries another one. Throws without /proc. */
export function bootId(): string {
  known ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return known;
}
