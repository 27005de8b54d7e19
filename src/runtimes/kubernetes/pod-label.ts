import { processRoles, slotNameSchema } from "../../api/names.ts";
import { readOrdinal, type SlotProcess } from "../../api/process-ref.ts";
import type { Workload } from "../../api/workload.ts";

/** Identifies a Pod as ours; a Pod without it is never touched. */
export interface PodLabel extends SlotProcess {
  readonly hash: string;
  readonly port: number;
  /** The variable of its environment, and the key of its Secret, that holds its bearer. */
  readonly bearer?: string;
  /** By the clock of the operator that made it. */
  readonly startedAt: Date;
}

const podPrefix = "berth.dev/";
export const instanceLabel = `${podPrefix}instance`;
export const slotLabel = `${podPrefix}slot`;
const roleLabel = `${podPrefix}role`;
const ordinalLabel = `${podPrefix}ordinal`;
const hashLabel = `${podPrefix}hash`;
const portAnnotation = `${podPrefix}port`;
const bearerAnnotation = `${podPrefix}bearer`;
const startedAtAnnotation = `${podPrefix}started-at`;

/**
 * The name of a process's Pod, and of its Secret: the same at every start, so that two operators cannot start two. No
 * two processes share one, since a role holds no dash.
 */
export function podName({ slot, role, ordinal }: SlotProcess): string {
  return `berth-${slot}-${role}-${ordinal}`;
}

/** Whether `podName` may have made this name. */
export function isPodName(name: string): boolean {
  return processRoles.some((role) => new RegExp(`^berth-.+-${role}-\\d+$`).test(name));
}

export function podLabels(workload: Workload, instance: string): Record<string, string> {
  return {
    "app.kubernetes.io/name": "berth-engine",
    "app.kubernetes.io/managed-by": "berth",
    [instanceLabel]: instance,
    [slotLabel]: workload.slot,
    [roleLabel]: workload.role,
    [ordinalLabel]: String(workload.ordinal),
    [hashLabel]: workload.hash,
  };
}

/**
 * `hasBearer`: the engine requires a bearer of its clients. `startedAt`: the API server's own time of creation has whole
 * seconds, and would be before a request that has just caused the start.
 */
export function podAnnotations(
  { port, bearer }: Workload,
  { hasBearer, startedAt }: { readonly hasBearer: boolean; readonly startedAt: Date },
): Record<string, string> {
  return {
    [portAnnotation]: String(port),
    [startedAtAnnotation]: startedAt.toISOString(),
    ...(hasBearer && bearer !== undefined ? { [bearerAnnotation]: bearer.env } : {}),
  };
}

/** Selects the Pods of one slot, of whichever installation: their names leave room for one in a namespace. */
export function slotSelector(slot: string): string {
  return `app.kubernetes.io/managed-by=berth,${slotLabel}=${slot}`;
}

/** Undefined for labels of another installation than `instance`, or incomplete ones. */
export function podLabelIn(
  labels: Readonly<Record<string, string>>,
  annotations: Readonly<Record<string, string>>,
  instance = labels[instanceLabel],
): PodLabel | undefined {
  const slot = slotNameSchema.safeParse(labels[slotLabel]).data;
  const role = processRoles.find((known) => known === labels[roleLabel]);
  const ordinal = readOrdinal(labels[ordinalLabel]);
  const startedAt = new Date(annotations[startedAtAnnotation] ?? Number.NaN);
  if (labels[instanceLabel] !== instance || slot === undefined || role === undefined) return undefined;
  if (ordinal === undefined || Number.isNaN(startedAt.getTime())) return undefined;
  const bearer = annotations[bearerAnnotation];
  return {
    slot,
    role,
    ordinal,
    hash: labels[hashLabel] ?? "",
    port: Number(annotations[portAnnotation] ?? 0),
    ...(bearer === undefined ? {} : { bearer }),
    startedAt,
  };
}

/** Whether the label or annotation is Berth's: by these a Pod is found again, and the chart's selectors use them. */
export function isOwnKey(key: string): boolean {
  return key.startsWith(podPrefix);
}
