import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Observed } from "../../api/workload.ts";
import { rotatedFile } from "./log-rotation.ts";
import { containerLogFile, logFile } from "./logs.ts";
import { readRecordSync } from "../process/records.ts";

/** More than the output of any engine while it loads. */
const mostBytes = 1024 ** 2;

/**
 * The output of a running engine since its start, the first MiB of it; "" where nothing is left of it. A container's
 * lines come without the time and the stream before them in its log.
 */
export async function firstOutput(stateDir: string, process: Observed): Promise<string> {
  const { startedAt } = process;
  if (!("pid" in process.id)) {
    const path = containerLogFile(stateDir, process);
    const text = await read(path, Math.max(0, (await sizeOf(path)) - mostBytes));
    return text
      .split("\n")
      .flatMap((line) => lineSince(line, startedAt))
      .join("\n");
  }
  const record = readRecordSync(join(stateDir, "processes"), process);
  if (record?.pid !== process.id.pid) return "";
  const path = logFile(stateDir, process);
  // Rotated since: `.1` keeps every byte at its old offset.
  const isRotated = (await sizeOf(path)) < record.logOffset;
  return await read(isRotated ? rotatedFile(path) : path, record.logOffset);
}

function lineSince(line: string, startedAt: Date): string[] {
  const [, stamp = "", text = ""] = /^(\S+) std(?:out|err) ?(.*)$/s.exec(line) ?? [];
  // Podman's stamps are of whole seconds.
  return Math.floor(Date.parse(stamp) / 1000) >= Math.floor(startedAt.getTime() / 1000) ? [text] : [];
}

async function sizeOf(path: string): Promise<number> {
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return 0;
  try {
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}

async function read(path: string, offset: number): Promise<string> {
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return "";
  try {
    const length = Math.min(mostBytes, Math.max(0, (await file.stat()).size - offset));
    const buffer = Buffer.alloc(length);
    const { bytesRead } = await file.read(buffer, 0, length, offset);
    return buffer.toString("utf8", 0, bytesRead);
  } catch {
    // An unreadable log says nothing; the engine serves all the same.
    return "";
  } finally {
    await file.close();
  }
}
