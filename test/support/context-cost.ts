import type { ContextCost } from "../../src/api/context-cost.ts";

/** The cost of a model whose layers all keep the whole context: so many bytes for each token. */
export function perToken(bytes: number): ContextCost {
  return { keyWidth: bytes / 2, valueWidth: 0, stateWidth: 0 };
}
