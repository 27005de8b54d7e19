/** How fast the person or supervisor wants it over. */
export type StopKind = "interrupt" | "terminate";

/** The parts of `process` that are listened to; a test gives an EventEmitter. */
type SignalSource = Pick<NodeJS.Process, "on" | "off"> & { readonly connected?: boolean };

/**
 * Resolves at the first INT (Ctrl-C: be quick) or TERM or HUP, or when the parent that holds our IPC channel goes
 * away. `again` aborts at the second: end everything now.
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
  // It was gone before anybody listened.
  if (source.connected === false) note("interrupt");
  return { stopped: promise, again: again.signal };
}
