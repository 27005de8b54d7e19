import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessRole } from "../api/names.ts";
import { labelOf } from "./label.ts";
import { listeningInodes, listeningPorts, listProcs, ownsSocket } from "./proc.ts";
import { readRecords, readRecordSync } from "./records.ts";

export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** A port that something runs on of which there is no record on disk. */
export interface HeldPort {
  readonly slot: string;
  readonly role: ProcessRole;
  readonly port: number;
}

/**
 * Ports of engines (DECISIONS 3). Who holds one keeps it, also after an operator restart, until it is released. Leases
 * outlive any one call, so they are given back by `release`, not by leaving a scope.
 */
export class PortLeases {
  readonly #range: PortRange;
  readonly #directory: string;
  /** Owner, as `slot/role`, by port. */
  readonly #held = new Map<number, string>();

  /** `directory` holds the records of processes. */
  constructor(range: PortRange, directory: string) {
    this.#range = range;
    this.#directory = directory;
  }

  /**
   * The port of that role. With `fixed`: that one, unless another holds it. Without: the one it holds, or the lowest
   * of the range that nobody holds, nobody listens on and that is not to be avoided. A stranger that listens on a held
   * automatic port makes its holder move. Undefined when there is none.
   */
  reserve(slot: string, role: ProcessRole, fixed?: number, avoid?: ReadonlySet<number>): number | undefined {
    const owner = `${slot}/${role}`;
    if (fixed !== undefined) {
      const holder = this.#held.get(fixed);
      if (holder !== undefined && holder !== owner) return undefined;
      return this.#give(owner, fixed);
    }
    for (const [port, holder] of this.#held) {
      if (holder === owner && !this.#isTakenByStranger(port, slot, role)) return port;
    }
    const busy = listeningPorts("/proc/net");
    for (let port = this.#range.first; port <= this.#range.last; port++) {
      if (this.#held.has(port) || avoid?.has(port) === true || busy?.has(port) === true) continue;
      return this.#give(owner, port);
    }
    return undefined;
  }

  /** Who holds the port, as `slot/role`. */
  holder(port: number): string | undefined {
    return this.#held.get(port);
  }

  /** Gives back one role's port, or all of the slot's. */
  release(slot: string, role?: ProcessRole): void {
    for (const [port, holder] of this.#held) {
      if (role === undefined ? holder.startsWith(`${slot}/`) : holder === `${slot}/${role}`) this.#held.delete(port);
    }
  }

  /** Dear only where somebody listens: then the record tells whether the listener is the holder's own engine. */
  #isTakenByStranger(port: number, slot: string, role: ProcessRole): boolean {
    const inodes = listeningInodes(port);
    if (inodes.size === 0) return false;
    const start = readRecordSync(this.#directory, slot, role)?.start;
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
 * Leases for the range, with those of every engine on record: what runs, and what an earlier operator had not cleared
 * away. Nothing else needs to be stored: an engine has a record for as long as its slot has a port.
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
    const { slot, role, port, exit } = record;
    const isInRange = port >= range.first && port <= range.last;
    // A port of another range counts only for what may still run on it.
    if (isInRange || exit === undefined) leases.reserve(slot, role, port);
  }
  for (const { slot, role, port } of held) leases.reserve(slot, role, port);
  return leases;
}
