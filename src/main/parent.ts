/**
 * Tells `berth up` how far this part of it is; nobody where there is none. It may have gone at any moment: that is heard
 * as a wish to stop (`untilStopped`), and must not be an error that nobody takes.
 */
export function tellParent(message: "acting" | "ready" | "leaving" | "released"): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}
