/** Calls `listener` with the reason once the signal is aborted, at once where it is already, unless disposed before. */
export function onAbort(signal: AbortSignal, listener: (reason: unknown) => void): Disposable {
  const heard = (): void => listener(signal.reason);
  if (signal.aborted) heard();
  else signal.addEventListener("abort", heard, { once: true });
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", heard) };
}
