import type { ProcessRole } from "../api/names.ts";
import { readProc } from "./proc.ts";
import { RecordBook } from "./records.ts";
import { join } from "node:path";
import { listeningInodes } from "./proc.ts";

/** Ports of engines (DECISIONS 3). Who runs on a port keeps it, also after an operator restart. */
export class PortLeases {
  readonly #first: number;
  readonly #last: number;
  readonly #held = new Map<number, string>();

  constructor(range: { first: number; last: number }) {
    this.#first = range.first;
    this.#last = range.last;
  }

  /**
   * The port of that role: the one it holds, or `fixed`, or the lowest on which nobody holds a lease and nobody
   * listens. Undefined when none is free.
   */
  reserve(slot: string, role: ProcessRole, fixed?: number): number | undefined {
    const owner = `${slot}/${role}`;
    if (fixed !== undefined) {
      const holder = this.#held.get(fixed);
      if (holder !== undefined && holder !== owner) return undefined;
      this.release(slot, role);
      this.#held.set(fixed, owner);
      return fixed;
    }
    for (const [port, holder] of this.#held) if (holder === owner) return port;
    for (let port = this.#first; port <= this.#last; port++) {
      if (this.#held.has(port) || listeningInodes(port).size > 0) continue;
      this.#held.set(port, owner);
      return port;
    }
    return undefined;
  }

  release(slot: string, role?: ProcessRole): void {
    for (const [port, holder] of this.#held) {
      if (role === undefined ? holder.startsWith(`${slot}/`) : holder === `${slot}/${role}`) this.#held.delete(port);
    }
  }
}

/** Leases for the range, with those of engines that an earlier operator left running. */
export async function openPortLeases(stateDir: string, range: { first: number; last: number }): Promise<PortLeases> {
  const leases = new PortLeases(range);
  const records = await RecordBook.open(join(stateDir, "processes"));
  for (const { slot, role, port, pid, startTime, exit } of records.all()) {
    if (exit === undefined && readProc(pid)?.startTime === startTime) leases.reserve(slot, role, port);
  }
  return leases;
}
