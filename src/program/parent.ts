/**
 * Reports the progress of this part to `berth up`; does nothing without it. The parent may be gone at any moment:
 * `untilStopped` treats that as a request to stop, so the failed send is no error.
 */
export function notifyParent(message: "acting" | "ready" | "leaving" | "released"): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}
