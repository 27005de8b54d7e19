import { z } from "zod";

/**
 * `metav1.Condition`, as every Kubernetes resource carries it:
 * https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/types.go
 */
export const conditionSchema = z.strictObject({
  type: z.string(),
  status: z.enum(["True", "False", "Unknown"]),
  observedGeneration: z.int().nonnegative(),
  lastTransitionTime: z.iso.datetime(),
  reason: z.string().regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/),
  message: z.string().max(32_768),
});
export type Condition = z.infer<typeof conditionSchema>;
export type ConditionStatus = Condition["status"];

/** The condition types of resources. Those after `Stalled` are extra facts, never summaries. */
export const conditionTypes = [
  "Ready",
  "Available",
  "Reconciling",
  "Stalled",
  "NameConflict",
  "ModelChanged",
  "Degraded",
  "ModelUnknown",
] as const;
export type ConditionType = (typeof conditionTypes)[number];

/** A condition as a reconcile states it; `lastTransitionTime` follows from the conditions before. */
export interface ConditionClaim {
  readonly type: ConditionType;
  readonly status: ConditionStatus;
  readonly reason: string;
  readonly message: string;
}

/**
 * The conditions that follow `before` when `claims` now hold. A type that is not claimed is absent;
 * `lastTransitionTime` changes only when the status of that type changes.
 */
export function nextConditions(
  before: readonly Condition[],
  claims: readonly ConditionClaim[],
  generation: number,
  now: Date,
): Condition[] {
  return claims.map((claim) => {
    const previous = before.find((condition) => condition.type === claim.type);
    return {
      type: claim.type,
      status: claim.status,
      observedGeneration: generation,
      lastTransitionTime: previous?.status === claim.status ? previous.lastTransitionTime : now.toISOString(),
      reason: claim.reason,
      message: claim.message.slice(0, 32_768),
    };
  });
}

/** The condition of that type, or undefined. */
export function findCondition(conditions: readonly Condition[], type: ConditionType): Condition | undefined {
  return conditions.find((condition) => condition.type === type);
}

/**
 * The conditions that need a person: stalled, degraded or in conflict over a name, and a `Ready` that is false for
 * another reason than these.
 */
export function abnormalConditions(conditions: readonly Condition[]): readonly Condition[] {
  const abnormal = conditions.filter(({ type, status }) => isAbnormal.has(type) && status === "True");
  const ready = findCondition(conditions, "Ready");
  const isNews = ready?.status === "False" && !abnormal.some(({ reason }) => reason === ready.reason);
  return ready !== undefined && isNews ? [ready, ...abnormal] : abnormal;
}

/** Conditions that are for a person to mend while they are true. */
export const abnormalTypes = [
  "Stalled",
  "NameConflict",
  "Degraded",
  "ModelUnknown",
] as const satisfies readonly ConditionType[];
const isAbnormal: ReadonlySet<string> = new Set(abnormalTypes);
