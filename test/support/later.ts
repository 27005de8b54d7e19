/**
 * A promise that is awaited later. What rejects it before is told there; node:test would take it, as a rejection that
 * nobody awaits, for the reason of a test that has failed of something else and cuts it off as it ends.
 */
export function later<T extends Promise<unknown>>(promise: T): T {
  promise.catch(() => undefined);
  return promise;
}
