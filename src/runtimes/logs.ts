import { watch } from "node:fs";
import { open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { processRoles, slotNameSchema, type ProcessRole } from "../api/names.ts";
import type { LogLine } from "./runtime.ts";

/** Where a process's output is appended. */
export function logFile(stateDir: string, slot: string, role: ProcessRole): string {
  return join(stateDir, "logs", `${slotNameSchema.parse(slot)}.${role}.log`);
}

const chunkBytes = 65_536;
/** A line longer than this is cut: logs are for people. */
const lineBytes = 65_536;
const pollMs = 500;

/**
 * The last `tail` lines of a slot's engines, then, with `follow`, each new one until `signal` aborts. Reads only:
 * the gateway uses it beside a running operator. Times are when a line was read, or the file's own for old lines.
 */
export async function* tailLogs(
  stateDir: string,
  slot: string,
  options: { tail: number; follow: boolean; signal?: AbortSignal },
): AsyncIterable<LogLine> {
  const files = processRoles.map((role) => logFile(stateDir, slot, role));
  const positions = new Map<string, number>();
  const old: LogLine[] = [];
  for (const file of files) {
    const { lines, size, time } = await lastLines(file, options.tail);
    positions.set(file, size);
    old.push(...lines.map((line) => ({ time, stream: "output" as const, line })));
  }
  yield* old.slice(-options.tail);
  if (!options.follow) return;
  const rest = new Map<string, string>();
  let wake = Promise.withResolvers<void>();
  const onEvent = (): void => wake.resolve();
  const watcher = watchDirectory(dirname(logFile(stateDir, slot, "main")), onEvent);
  const timer = setInterval(onEvent, pollMs);
  options.signal?.addEventListener("abort", onEvent);
  try {
    while (options.signal?.aborted !== true) {
      for (const file of files) yield* newLines(file, positions, rest);
      await wake.promise;
      wake = Promise.withResolvers<void>();
    }
  } finally {
    watcher?.close();
    clearInterval(timer);
    options.signal?.removeEventListener("abort", onEvent);
  }
}

function watchDirectory(path: string, onEvent: () => void): { close(): void } | undefined {
  try {
    const watcher = watch(path, onEvent);
    watcher.on("error", () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}

async function* newLines(
  file: string,
  positions: Map<string, number>,
  rest: Map<string, string>,
): AsyncIterable<LogLine> {
  const size = await stat(file).then(
    (found) => found.size,
    () => 0,
  );
  // Smaller than before: it was cut, and begins anew.
  let position =
    Math.min(positions.get(file) ?? 0, size) === size && size < (positions.get(file) ?? 0)
      ? 0
      : (positions.get(file) ?? 0);
  while (position < size) {
    const text = await readAt(file, position, Math.min(chunkBytes, size - position));
    if (text.length === 0) break;
    position += text.length;
    const lines = ((rest.get(file) ?? "") + text.toString()).split("\n");
    rest.set(file, (lines.pop() ?? "").slice(-lineBytes));
    for (const line of lines) yield { time: new Date(), stream: "output", line: line.slice(0, lineBytes) };
  }
  positions.set(file, position);
}

async function readAt(file: string, position: number, length: number): Promise<Buffer> {
  const handle = await open(file, "r").catch(() => undefined);
  if (handle === undefined) return Buffer.alloc(0);
  try {
    const buffer = Buffer.alloc(length);
    const { bytesRead } = await handle.read(buffer, 0, length, position);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** Read from the end, chunk by chunk, so that a large log costs what is asked for. */
async function lastLines(file: string, count: number): Promise<{ lines: string[]; size: number; time: Date }> {
  const found = await stat(file).catch(() => undefined);
  if (found === undefined) return { lines: [], size: 0, time: new Date() };
  let start = found.size;
  let data = Buffer.alloc(0);
  const limit = count * lineBytes;
  while (start > 0 && data.length < limit) {
    const length = Math.min(chunkBytes, start);
    start -= length;
    data = Buffer.concat([await readAt(file, start, length), data]);
    if (data.toString("latin1").split("\n").length > count + 1) break;
  }
  const lines = data.toString().split("\n");
  if (lines.at(-1) === "") lines.pop();
  return { lines: lines.slice(-count).map((line) => line.slice(0, lineBytes)), size: found.size, time: found.mtime };
}
