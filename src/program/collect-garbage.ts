import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Collects what loading a program's modules has left, and makes V8 shrink the space for young objects, which has grown meanwhile. A
 * gateway at rest then holds 13 to 17 MiB less resident memory, an operator 6, for 30 ms of CPU at its start. V8 itself collects when enough has
 * been allocated since, which at rest may take hours. Call it before requests are expected: they wait for it.
 */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") collect();
}
