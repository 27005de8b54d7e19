/**
 * Milliseconds of processor time that this thread takes for `act`. What other programs, other threads and a wait for
 * the processor take does not count, so that a bound holds on a busy machine too.
 */
export function cpuMs(act: () => void): number {
  const before = process.threadCpuUsage();
  act();
  return cpuMsSince(before);
}

/** Milliseconds of processor time of this thread since `before`. */
export function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
