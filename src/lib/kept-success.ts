/** Keeps what `read` resolves with. After a rejection, which its callers get too, the next call reads again. */
export function keptSuccess<Value>(read: () => Promise<Value>): () => Promise<Value> {
  let kept: Promise<Value> | undefined;
  return async () => {
    const reading = (kept ??= read());
    try {
      return await reading;
    } catch (error) {
      if (kept === reading) kept = undefined;
      throw error;
    }
  };
}
