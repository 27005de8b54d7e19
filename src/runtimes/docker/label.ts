import { processRoles, slotNameSchema, type ProcessRole } from "../../api/names.ts";
import type { Workload } from "../../api/workload.ts";

/** What every container of ours carries, and nothing without it is ever touched. */
export interface ContainerLabel {
  readonly instance: string;
  readonly slot: string;
  readonly role: ProcessRole;
  readonly hash: string;
  readonly port: number;
  /** The name it was given: somebody may have renamed it. */
  readonly name: string;
  /** The variable of its environment that holds its bearer. */
  readonly bearer?: string;
}

const prefix = "dev.berth.";
export const instanceLabel = `${prefix}instance`;

/** The labels by which a container is known to be ours. */
export function labelsFor(
  workload: Workload,
  instance: string,
  name: string,
  hasBearer = false,
): Record<string, string> {
  const { slot, role, hash, port, bearer } = workload;
  return {
    [instanceLabel]: instance,
    [`${prefix}slot`]: slot,
    [`${prefix}role`]: role,
    [`${prefix}hash`]: hash,
    [`${prefix}port`]: String(port),
    [`${prefix}name`]: name,
    ...(hasBearer && bearer !== undefined ? { [`${prefix}bearer`]: bearer.env } : {}),
  };
}

/** The filter of the daemon's lists and events for what bears these labels. */
export function labelFilter(instance: string, of?: { readonly slot: string; readonly role: ProcessRole }): string[] {
  const known = [`${instanceLabel}=${instance}`];
  return of === undefined ? known : [...known, `${prefix}slot=${of.slot}`, `${prefix}role=${of.role}`];
}

/** Undefined when the labels are not those of that instance, or not whole. */
export function labelIn(
  labels: Readonly<Record<string, string>> | null | undefined,
  instance: string,
): ContainerLabel | undefined {
  const get = (key: string): string | undefined => labels?.[`${prefix}${key}`];
  const slot = slotNameSchema.safeParse(get("slot")).data;
  const role = processRoles.find((known) => known === get("role"));
  if (get("instance") !== instance || slot === undefined || role === undefined) return undefined;
  const bearer = get("bearer");
  return {
    instance,
    slot,
    role,
    hash: get("hash") ?? "",
    port: Number(get("port") ?? 0),
    name: get("name") ?? "",
    ...(bearer === undefined ? {} : { bearer }),
  };
}

/** Names are for people; labels decide. A slot's name has no dot. */
export function nameFor({ slot, role }: Pick<Workload, "slot" | "role">, instance: string): string {
  return `berth-${shortOf(instance)}-${slot}${role === "main" ? "" : `.${role}`}`;
}

/** One bridge network for all containers of an instance, on which they cannot reach each other. */
export function networkFor(instance: string): string {
  return `berth-${shortOf(instance)}`;
}

function shortOf(instance: string): string {
  return instance.replaceAll(/[^A-Za-z0-9]/g, "").slice(-10);
}
