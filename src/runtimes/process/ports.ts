import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { processName, type ProcessRef, type SlotProcess } from "../../api/process-ref.ts";
import { labelOf } from "./label.ts";
import { listeningInodes, listeningPorts, listProcs, ownsSocket } from "./proc.ts";
import { readRecords, readRecordSync } from "./records.ts";

export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** A port in use by a process without a record on disk. */
export interface HeldPort extends SlotProcess {
  readonly port: number;
}

/** The owner of a port: `primary/main`, `primary/main-1`. */
export function portOwner(process: SlotProcess): string {
  return `${process.slot}/${processName(process)}`;
}

/**
 * Ports of engines (DECISIONS 3). The holder keeps its port, also after an operator restart, until it is released.
 * Leases outlive any one call, so they are returned by `release`, not by leaving a scope.
 */
export class PortLeases {
  readonly #range: PortRange;
  readonly #directory: string;
  /** Owner, as `portOwner` names it, by port. */
  readonly #held = new Map<number, string>();

  /** `directory` holds the records of processes. */
  constructor(range: PortRange, directory: string) {
    this.#range = range;
    this.#directory = directory;
  }

  /**
   * The port of that role. With `fixed`: that one, unless another holds it. Without: the one it holds, or the lowest
   * free one of the range that is not in `avoid`. A foreign listener on a held automatic port makes its holder move.
   * Undefined without any.
   */
  reserve(process: SlotProcess, fixed?: number, avoid?: ReadonlySet<number>): number | undefined {
    const owner = portOwner(process);
    const port = fixed ?? this.find(process, avoid);
    if (port === undefined) return undefined;
    const holder = this.#held.get(port);
    if (holder !== undefined && holder !== owner) return undefined;
    return this.#give(owner, port);
  }

  /** The automatic port that `reserve` would return now. Leases nothing. */
  find(process: SlotProcess, avoid?: ReadonlySet<number>): number | undefined {
    const owner = portOwner(process);
    for (const [port, holder] of this.#held) {
      if (holder === owner && !this.#isTakenByStranger(port, process)) return port;
    }
    const busy = listeningPorts("/proc/net");
    for (let port = this.#range.first; port <= this.#range.last; port++) {
      if (this.#held.has(port) || avoid?.has(port) === true || busy?.has(port) === true) continue;
      return port;
    }
    return undefined;
  }

  /** The holder of the port, as `portOwner` names it. */
  holder(port: number): string | undefined {
    return this.#held.get(port);
  }

  /** Releases one role's port, or all of the slot's. */
  release(slot: string, process?: ProcessRef): void {
    const owner = process === undefined ? undefined : portOwner({ ...process, slot });
    for (const [port, holder] of this.#held) {
      if (owner === undefined ? holder.startsWith(`${slot}/`) : holder === owner) this.#held.delete(port);
    }
  }

  /** Expensive only with a listener: then the record shows whether the listener is the holder's own engine. */
  #isTakenByStranger(port: number, process: SlotProcess): boolean {
    const inodes = listeningInodes(port);
    if (inodes.size === 0) return false;
    const start = readRecordSync(this.#directory, process)?.start;
    return (
      start === undefined || !listProcs().some(({ pid }) => labelOf(pid)?.start === start && ownsSocket(pid, inodes))
    );
  }

  #give(owner: string, port: number): number {
    for (const [other, holder] of this.#held) if (holder === owner) this.#held.delete(other);
    this.#held.set(port, owner);
    return port;
  }
}

/**
 * Leases for the range, with those of every recorded engine: running ones, and those that an earlier operator had not
 * removed. Nothing else needs to be stored: an engine has a record as long as its slot has a port.
 */
export async function openPortLeases(
  stateDir: string,
  range: PortRange,
  held: readonly HeldPort[] = [],
): Promise<PortLeases> {
  const directory = join(stateDir, "processes");
  const leases = new PortLeases(range, directory);
  await mkdir(directory, { recursive: true });
  for (const { record } of await readRecords(directory)) {
    if (record === undefined) continue;
    const { port, exit } = record;
    const isInRange = port >= range.first && port <= range.last;
    // A port of another range counts only for a process that may still run on it.
    if (isInRange || exit === undefined) leases.reserve(record, port);
  }
  for (const process of held) leases.reserve(process, process.port);
  return leases;
}
