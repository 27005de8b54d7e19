import { bytes, printable } from "../../cli/output.ts";

/** The result of one check. `next`: the remedy; null without one. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  readonly next: string | null;
}

export const ok = (check: string, message: string): Finding => ({ check, status: "ok", message, next: null });
/** The check passed, and a person should know the message. */
export const warn = (check: string, message: string, next: string): Finding => ({
  check,
  status: "warn",
  message,
  next,
});
/** The check failed. */
export const fail = (check: string, message: string, next: string): Finding => ({
  check,
  status: "fail",
  message,
  next,
});

/** For a person: the result on one line, the remedy on the next. */
export function findingText({ check, status, message, next }: Finding): string {
  const line = `${status.padEnd(4)}  ${check}: ${printable(message)}\n`;
  return next === null ? line : `${line}      → ${printable(next)}\n`;
}

/** `12.0 GiB free of 40.0 GiB`. */
export function roomText(free: number | null, total: number | null): string {
  return `${bytes(free)} free${total === null ? "" : ` of ${bytes(total)}`}`;
}
