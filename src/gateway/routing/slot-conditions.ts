import type { Condition } from "../../api/conditions.ts";

/** A slot's conditions, corrected for a lost operator. */
export function slotConditions(conditions: readonly Condition[], isOperatorLost: boolean): readonly Condition[] {
  if (!isOperatorLost) return conditions;
  // Without an operator, conditions of engines are out of date.
  return conditions.map((condition) =>
    condition.type === "Ready"
      ? {
          ...condition,
          status: "Unknown",
          reason: "OperatorLost",
          message: "no heartbeat of the operator for 5 s",
        }
      : condition,
  );
}
