import type { ProcessRole } from "../api/names.ts";
import { processRoles, slotNameSchema } from "../api/names.ts";
import type { Workload } from "../api/workload.ts";
import { environmentOf } from "./proc.ts";

/** What every engine carries in its environment, and its children inherit: the proof that a process is ours. */
export interface Label {
  readonly instance: string;
  readonly slot: string;
  readonly role: ProcessRole;
  readonly hash: string;
  readonly port: number;
  /** Another one for every start: tells a lost engine from what an earlier one left behind. */
  readonly start: string;
}

/** The label of one start of a workload. */
export function labelFor(workload: Workload, instance: string, start: string): Label {
  const { slot, role, hash, port } = workload;
  return { instance, slot, role, hash, port, start };
}

/** The label as variables of the engine's environment, where it is found again. */
export function labelVariables(label: Label): Record<string, string> {
  return {
    BERTH_INSTANCE: label.instance,
    BERTH_SLOT: label.slot,
    BERTH_ROLE: label.role,
    BERTH_HASH: label.hash,
    BERTH_PORT: String(label.port),
    BERTH_START: label.start,
  };
}

/** The label of that process; undefined when it carries none or its environment may not be read. */
export function labelOf(pid: number): Label | undefined {
  const environment = environmentOf(pid);
  const instance = environment?.get("BERTH_INSTANCE");
  const slot = slotNameSchema.safeParse(environment?.get("BERTH_SLOT")).data;
  const role = processRoles.find((known) => known === environment?.get("BERTH_ROLE"));
  if (environment === undefined || instance === undefined || slot === undefined || role === undefined) return undefined;
  return {
    instance,
    slot,
    role,
    hash: environment.get("BERTH_HASH") ?? "",
    port: Number(environment.get("BERTH_PORT") ?? 0),
    start: environment.get("BERTH_START") ?? "",
  };
}
