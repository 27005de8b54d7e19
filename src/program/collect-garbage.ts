import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Collects what the loading of a program's modules has left, and makes V8 shrink the space for young objects, which grew
 * meanwhile. A gateway at rest then holds 13 to 17 MiB less resident memory, an operator 6 MiB less, for 30 ms of CPU at
 * the start. V8 itself collects only after further allocations, which at rest may take hours. Call the function before
 * requests are expected: they wait for its end.
 */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") collect();
}
