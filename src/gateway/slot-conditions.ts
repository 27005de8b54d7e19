import type { Condition } from "../api/conditions.ts";

/** A slot's conditions as they are to be believed. */
export function slotConditions(conditions: readonly Condition[], isOperatorLost: boolean): readonly Condition[] {
  if (!isOperatorLost) return conditions;
  // Nobody watches the engines: what was true may not be any more.
  return conditions.map((condition) =>
    condition.type === "Ready"
      ? {
          ...condition,
          status: "Unknown",
          reason: "OperatorLost",
          message: "the operator has not been heard of for 5 s",
        }
      : condition,
  );
}
