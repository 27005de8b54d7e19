import { processRoles, slotNameSchema } from "../../api/names.ts";
import { processName, readOrdinal, type ProcessRef } from "../../api/process-ref.ts";
import type { Workload } from "../../api/workload.ts";

/** The label of every container of ours; a container without it is never touched. */
export interface ContainerLabel extends ProcessRef {
  readonly instance: string;
  readonly slot: string;
  readonly hash: string;
  readonly port: number;
  /** The variable of its environment that holds its bearer. */
  readonly bearer?: string;
}

const prefix = "dev.berth.";
export const instanceLabel = `${prefix}instance`;

/** The labels that identify a container as ours. */
export function labelsFor(workload: Workload, instance: string, hasBearer = false): Record<string, string> {
  const { slot, role, ordinal, hash, port, bearer } = workload;
  return {
    [instanceLabel]: instance,
    [`${prefix}slot`]: slot,
    [`${prefix}role`]: role,
    [`${prefix}ordinal`]: String(ordinal),
    [`${prefix}hash`]: hash,
    [`${prefix}port`]: String(port),
    ...(hasBearer && bearer !== undefined ? { [`${prefix}bearer`]: bearer.env } : {}),
  };
}

/** The filter of the daemon's lists and events for these labels. */
export function labelFilter(instance: string, slot?: string): string[] {
  const known = [`${instanceLabel}=${instance}`];
  return slot === undefined ? known : [...known, `${prefix}slot=${slot}`];
}

/** Undefined for labels of another instance, or incomplete ones. */
export function labelIn(
  labels: Readonly<Record<string, string>> | null | undefined,
  instance: string,
): ContainerLabel | undefined {
  const get = (key: string): string | undefined => labels?.[`${prefix}${key}`];
  const slot = slotNameSchema.safeParse(get("slot")).data;
  const role = processRoles.find((known) => known === get("role"));
  const ordinal = readOrdinal(get("ordinal"));
  if (get("instance") !== instance || slot === undefined || role === undefined || ordinal === undefined)
    return undefined;
  const bearer = get("bearer");
  return {
    instance,
    slot,
    role,
    ordinal,
    hash: get("hash") ?? "",
    port: Number(get("port") ?? 0),
    ...(bearer === undefined ? {} : { bearer }),
  };
}

/** Names are for people; labels decide. A slot's name has no dot. */
export function nameFor({ slot, ...process }: ProcessRef & Pick<Workload, "slot">, instance: string): string {
  const name = processName(process);
  return `berth-${shortOf(instance)}-${slot}${name === "main" ? "" : `.${name}`}`;
}

/** One bridge network for all containers of an instance, on which they cannot reach each other. */
export function networkFor(instance: string): string {
  return `berth-${shortOf(instance)}`;
}

function shortOf(instance: string): string {
  return instance.replaceAll(/[^A-Za-z0-9]/g, "").slice(-10);
}
