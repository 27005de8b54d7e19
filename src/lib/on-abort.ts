/** Calls `listener` with the reason once the signal is aborted, at once where it is already, unless disposed before. */
export function onAbort(signal: AbortSignal, listener: (reason: unknown) => void): Disposable {
  const heard = (): void => listener(signal.reason);
  if (signal.aborted) heard();
  else signal.addEventListener("abort", heard, { once: true });
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", heard) };
}

/** The promise, or a rejection with the signal's reason where that comes first. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  using _ = onAbort(signal, reject);
  return await Promise.race([promise, aborted]);
}

/** Resolves after so many milliseconds. Rejects with the signal's reason once that is aborted. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  using _ = onAbort(signal, reject);
  try {
    await promise;
  } finally {
    clearTimeout(timer);
  }
}
