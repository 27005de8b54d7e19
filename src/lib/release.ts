/**
 * Gives a buffer's memory back at once. Garbage collection counts objects rather than the bytes behind them, so that
 * hundreds of large buffers may otherwise lie about for long. Nobody may use the buffer any more: it is empty then.
 * Does nothing to one that shares its memory with others.
 */
export function release(buffer: Buffer): void {
  const memory = buffer.buffer;
  if (memory instanceof ArrayBuffer && memory.byteLength === buffer.byteLength) memory.transfer(0);
}
