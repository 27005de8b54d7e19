import { processRoles, slotNameSchema } from "../../api/names.ts";
import { isSameProcess, readOrdinal, type ProcessRef } from "../../api/process-ref.ts";
import type { ProcessRecord } from "../../api/process-record.ts";
import type { Workload } from "../../api/workload.ts";
import { environmentOf, userOf } from "./proc.ts";

/** The label of every engine in its environment, which its children inherit. Any process can claim it: see `Trust`. */
export interface Label extends ProcessRef {
  readonly instance: string;
  readonly slot: string;
  readonly hash: string;
  readonly port: number;
  /** A secret per start: only the engine's own user can read an environment. */
  readonly start: string;
}

/** The label of one start of a workload. */
export function labelFor(workload: Workload, instance: string, start: string): Label {
  const { slot, role, ordinal, hash, port } = workload;
  return { instance, slot, role, ordinal, hash, port, start };
}

/** The label as variables of the engine's environment. */
export function labelVariables(label: Label): Record<string, string> {
  return {
    BERTH_INSTANCE: label.instance,
    BERTH_SLOT: label.slot,
    BERTH_ROLE: label.role,
    BERTH_ORDINAL: String(label.ordinal),
    BERTH_HASH: label.hash,
    BERTH_PORT: String(label.port),
    BERTH_START: label.start,
  };
}

/** The label of that process; undefined without one, or for an unreadable environment. */
export function labelOf(pid: number): Label | undefined {
  const environment = environmentOf(pid);
  const instance = environment?.get("BERTH_INSTANCE");
  const slot = slotNameSchema.safeParse(environment?.get("BERTH_SLOT")).data;
  const role = processRoles.find((known) => known === environment?.get("BERTH_ROLE"));
  const ordinal = readOrdinal(environment?.get("BERTH_ORDINAL"));
  if (environment === undefined || instance === undefined) return undefined;
  if (slot === undefined || role === undefined || ordinal === undefined) return undefined;
  return {
    instance,
    slot,
    role,
    ordinal,
    hash: environment.get("BERTH_HASH") ?? "",
    port: Number(environment.get("BERTH_PORT") ?? 0),
    start: environment.get("BERTH_START") ?? "",
  };
}

/**
 * The meaning of a label (docs/adr/0006). Everybody on the machine can start a process with our variables in its
 * environment, and a root operator can read those of all users. So a label never leads to an adoption; it only permits
 * ending its process, and only one of a user that our engines run as.
 */
export class Trust {
  readonly #users: ReadonlySet<number>;

  /** `users`: the users of engines of this operator, now or before. */
  constructor(users: Iterable<number>) {
    this.#users = new Set(users);
  }

  /**
   * Whether the process that a record names, by pid and start time, is the started engine: it has the secret of that
   * start, and the recorded user. The engine itself may have given up root.
   */
  isRecorded(record: ProcessRecord): boolean {
    const label = labelOf(record.pid);
    if (label?.instance !== record.instance || label.slot !== record.slot || !isSameProcess(label, record))
      return false;
    if (label.start !== record.start) return false;
    return record.uid === 0 || userOf(record.pid) === record.uid;
  }

  /** Whether a process with that label may be ended. `record`: the record of that slot and role. */
  mayEnd(label: Label, pid: number, record?: ProcessRecord): boolean {
    if (record?.uid === 0 && label.start === record.start) return true;
    const user = userOf(pid);
    return user !== undefined && (this.#users.has(user) || user === record?.uid);
  }
}
