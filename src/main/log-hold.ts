/** How much is held back at most: what a person watches must not hide for long what went wrong. */
const limits = { lines: 1000, ms: 15_000 } as const;

let held: { readonly writes: (() => void)[]; readonly timer: NodeJS.Timeout } | undefined;

/** What `berth up` sends to its parts. */
export const holdMessage = "hold log";
export const releaseMessage = "release log";

// Imported before any log is opened: what is held is written before that log's last flush.
process.on("exit", releaseLog);

/** From now on lines wait, until they are released, at the latest after 15 s, 1000 lines, or when the process ends. */
export function holdLog(): void {
  held ??= { writes: [], timer: setTimeout(releaseLog, limits.ms).unref() };
}

/** Writes what waits, in its order. */
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

/** A child of `berth up` holds its lines back when it is told so, and no longer than its parent lives. */
export function followHolds(): void {
  if (!process.connected) return;
  process.on("message", (message) => {
    if (message === holdMessage) holdLog();
    if (message === releaseMessage) releaseLog();
  });
  process.on("disconnect", releaseLog);
}
