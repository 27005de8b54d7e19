/** The limits of buffering: other output must not hide a failure for long. */
const limits = { lines: 1000, ms: 15_000 } as const;

let held: { readonly writes: (() => void)[]; readonly timer: NodeJS.Timeout } | undefined;

/** The message of `berth up` to its children. */
export const holdMessage = "hold log";
export const releaseMessage = "release log";

// Imported before any log is opened: buffered lines are written before that log's last flush.
process.on("exit", releaseLog);

/**
 * From now on lines are buffered until they are released, at the latest after 15 s, 1000 lines, or when the process
 * ends.
 */
export function holdLog(): void {
  held ??= { writes: [], timer: setTimeout(releaseLog, limits.ms).unref() };
}

/** Writes the buffered lines, in their order. */
export function releaseLog(): void {
  clearTimeout(held?.timer);
  const writes = held?.writes ?? [];
  held = undefined;
  for (const write of writes) write();
}

/** Writes at once, or when the log is released. */
export function writeUnheld(write: () => void): void {
  if (held === undefined) {
    write();
    return;
  }
  held.writes.push(write);
  if (held.writes.length >= limits.lines) releaseLog();
}

/** A child of `berth up` buffers its lines at the parent's message, and no longer than the parent lives. */
export function followHolds(): void {
  if (!process.connected) return;
  process.on("message", (message) => {
    if (message === holdMessage) holdLog();
    if (message === releaseMessage) releaseLog();
  });
  process.on("disconnect", releaseLog);
}
