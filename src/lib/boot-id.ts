import { readFileSync } from "node:fs";

let known: string | undefined;

/** Identifies this boot of the kernel: facts from before a reboot carry another id. Throws without /proc. */
export function bootId(): string {
  known ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return known;
}
