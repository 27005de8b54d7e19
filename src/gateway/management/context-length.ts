import type { KnownSlot } from "../routing/index.ts";

/**
 * Tokens of context that each request of a slot has: as the operator derived them, else as the spec says. Undefined
 * where nobody knows before the engine has started, or its own arguments decide.
 */
export function contextLengthOf({ spec, status }: KnownSlot): number | undefined {
  const derived = Number(status?.decisions["contextSize"]?.value);
  return Number.isSafeInteger(derived) && derived > 0 ? derived : spec.model.contextSize;
}
