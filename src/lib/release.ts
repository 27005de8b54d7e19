/**
 * Releases a buffer's memory at once. Garbage collection counts objects rather than the bytes behind them, so that
 * hundreds of large buffers may otherwise stay for long. The buffer is empty afterwards and must not be used. Does
 * nothing to a buffer that shares its memory with others.
 */
export function release(buffer: Buffer): void {
  const memory = buffer.buffer;
  if (memory instanceof ArrayBuffer && memory.byteLength === buffer.byteLength) memory.transfer(0);
}
