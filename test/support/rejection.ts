import assert from "node:assert/strict";

type Class<E> = abstract new (...args: never) => E;

/** Returns the error that `act` throws, which must be of this class. */
export function thrownBy<E>(act: () => unknown, kind: Class<E>): E {
  try {
    act();
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
  return assert.fail("nothing was thrown");
}

/** Resolves with the error that rejects the promise, which must be of this class. */
export async function rejectionOf<E>(promise: PromiseLike<unknown>, kind: Class<E>): Promise<E> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
  return assert.fail("it was fulfilled");
}
