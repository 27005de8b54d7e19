import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Collects what loading a program's modules has left, and lets V8 shrink the space for young objects that loading has grown: a
 * gateway at rest has 17 MiB less resident memory, at once 30 ms of processor time at its start. V8 collects on its own account when
 * much has been allocated since, which at rest may take hours. Called before anything is served.
 */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") collect();
}
