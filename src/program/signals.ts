/** How quickly the process must stop. */
export type StopKind = "interrupt" | "terminate";

/** The used part of `process`; a test gives an EventEmitter. */
type SignalSource = Pick<NodeJS.EventEmitter, "on"> & { readonly connected?: boolean };

/**
 * Resolves at the first INT (Ctrl-C: stop quickly) or TERM or HUP, or when the parent at the other end of our IPC
 * channel ends. `again` aborts at the second signal: end everything now.
 */
export function untilStopped(source: SignalSource = process): { stopped: Promise<StopKind>; again: AbortSignal } {
  const again = new AbortController();
  const { promise, resolve } = Promise.withResolvers<StopKind>();
  let count = 0;
  const note = (kind: StopKind): void => {
    count += 1;
    if (count === 1) resolve(kind);
    else again.abort();
  };
  source.on("SIGINT", () => note("interrupt"));
  source.on("SIGTERM", () => note("terminate"));
  source.on("SIGHUP", () => note("terminate"));
  source.on("disconnect", () => note("interrupt"));
  // The parent ended before this listener was added.
  if (source.connected === false) note("interrupt");
  return { stopped: promise, again: again.signal };
}
