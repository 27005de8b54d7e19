import { existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { writeJsonNow } from "./atomic-file.ts";
import { bootId } from "./boot-id.ts";
import { parseJson } from "./json.ts";
import { startTimeOf } from "./process-identity.ts";
import { everySecond } from "./pulse.ts";
import { isRecord } from "./record.ts";
import { readPlainText } from "./small-file.ts";

export interface Announcement extends Disposable {
  /** Writes the report now, where it has changed; otherwise that happens within a second. */
  refresh(): void;
}

/**
 * Keeps the report in the file, for processes of this machine that may read its directory, until disposed. The file counts
 * for as long as this process lives. Its directory is made where it is missing. Never throws: where the file cannot be
 * written, nobody learns of this process, and each second tries again.
 */
export function announce(path: string, report: () => object): Announcement {
  const identity = { pid: process.pid, startTime: startTimeOf(process.pid), bootId: bootId() };
  let written = "";
  const refresh = (): void => {
    const text = JSON.stringify({ ...report(), ...identity });
    if (text === written) return;
    try {
      // Not those above it: a state directory that was deleted stays so.
      if (!existsSync(dirname(path))) mkdirSync(dirname(path), { mode: 0o750 });
      writeJsonNow(path, text);
      written = text;
    } catch {
      // As on a full disk.
    }
  };
  refresh();
  const beats = everySecond(refresh);
  return {
    refresh,
    [Symbol.dispose]() {
      beats[Symbol.dispose]();
      // Not that of a process which has taken the place.
      if (textNow(path) === written) rmSync(path, { force: true });
    },
  };
}

/** The report of the living process that keeps it in the file; undefined where none does. */
export function announced(path: string): unknown {
  const report = parseJson(textNow(path) ?? "");
  if (!isRecord(report)) return undefined;
  const { pid, startTime, bootId: boot } = report;
  if (typeof pid !== "number" || typeof startTime !== "string" || boot !== bootId()) return undefined;
  return startTimeOf(pid) === startTime ? report : undefined;
}

function textNow(path: string): string | undefined {
  try {
    return readPlainText(path);
  } catch {
    return undefined;
  }
}
