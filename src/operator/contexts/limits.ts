import type { SlotSpec } from "../../api/slot.ts";
import type { ContextLimits } from "../../store/state/context-files.ts";

/** The limits of one process: replicas share the slot's limit. Undefined: the slot keeps no context. */
export function limitsOf({ model: { keepContext }, replicas = 1 }: SlotSpec): ContextLimits | undefined {
  if (keepContext === undefined) return undefined;
  const { maxBytes, maxAgeSeconds } = keepContext;
  return { maxBytes: Math.floor(maxBytes / replicas), maxAgeSeconds };
}
