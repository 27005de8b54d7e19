import { bytes, printable } from "../../cli/output.ts";

/** What one check found. `next`: what to do; null where there is nothing. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  readonly next: string | null;
}

export const ok = (check: string, message: string): Finding => ({ check, status: "ok", message, next: null });
/** It works, and a person should know. */
export const warn = (check: string, message: string, next: string): Finding => ({
  check,
  status: "warn",
  message,
  next,
});
/** It does not work as it is. */
export const fail = (check: string, message: string, next: string): Finding => ({
  check,
  status: "fail",
  message,
  next,
});

/** For a person: what was found on one line, what to do on the next. */
export function findingText({ check, status, message, next }: Finding): string {
  const line = `${status.padEnd(4)}  ${check}: ${printable(message)}\n`;
  return next === null ? line : `${line}      → ${printable(next)}\n`;
}

/** `12.0 GiB free of 40.0 GiB`. */
export function roomText(free: number | null, total: number | null): string {
  return `${bytes(free)} free${total === null ? "" : ` of ${bytes(total)}`}`;
}
