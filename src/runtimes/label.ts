import type { ProcessRole } from "../api/names.ts";
import { processRoles, slotNameSchema } from "../api/names.ts";
import type { ProcessRecord } from "../api/process-record.ts";
import type { Workload } from "../api/workload.ts";
import { environmentOf, userOf } from "./proc.ts";

/** What every engine carries in its environment, and its children inherit. Any process can claim it: see `Trust`. */
export interface Label {
  readonly instance: string;
  readonly slot: string;
  readonly role: ProcessRole;
  readonly hash: string;
  readonly port: number;
  /** Another one for every start, and a secret: only the engine's own user can read an environment. */
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

/**
 * What a label is worth (docs/adr/0006). Everybody on the machine can start a process with our variables in its
 * environment, and a root operator can read those of all users. So a label adopts nothing; it may only have what it
 * names ended, and only a process of a user that our engines run as.
 */
export class Trust {
  readonly #users: ReadonlySet<number>;

  /** `users`: whom this operator starts engines as, now or before. */
  constructor(users: Iterable<number>) {
    this.#users = new Set(users);
  }

  /**
   * Whether the process that a record names, by pid and start time, is the engine that was started: it knows the
   * secret of that start, and is of the user that was given. Root may have been given up by the engine itself.
   */
  isRecorded(record: ProcessRecord): boolean {
    const label = labelOf(record.pid);
    if (label?.instance !== record.instance || label.slot !== record.slot || label.role !== record.role) return false;
    if (label.start !== record.start) return false;
    const user = userOf(record.pid);
    if (record.uid === undefined) return user !== undefined && this.#users.has(user);
    return record.uid === 0 || user === record.uid;
  }

  /** Whether a process that carries that label may be ended for it. `record`: what is known of that slot and role. */
  mayEnd(label: Label, pid: number, record?: ProcessRecord): boolean {
    if (record?.uid === 0 && label.start === record.start) return true;
    const user = userOf(pid);
    return user !== undefined && (this.#users.has(user) || user === record?.uid);
  }
}
