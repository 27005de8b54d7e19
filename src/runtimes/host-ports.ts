import type { SlotProcess } from "../api/process-ref.ts";

/** A port in use by an engine. */
export interface HeldPort extends SlotProcess {
  readonly port: number;
}

/** The ports of this machine, and the engines that had them: what leases of ports depend on. */
export interface HostPorts {
  /** Ports on which somebody listens; undefined: not known. */
  listening(): ReadonlySet<number> | undefined;
  /** Whether a program listens there that is not that process's engine. */
  isTakenByStranger(port: number, process: SlotProcess): boolean;
  /** The ports of engines that run, and of those that an earlier operator had not removed when they had ended. */
  recorded(): Promise<readonly (HeldPort & { readonly hasEnded: boolean })[]>;
}
