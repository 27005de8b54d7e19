import { processKey, type ProcessRef, type SlotProcess } from "../../api/process-ref.ts";
import type { HeldPort, HostPorts } from "../../runtimes/host-ports.ts";

export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/**
 * Ports of engines (DECISIONS 3). The holder keeps its port, also after an operator restart, until it is released.
 * Leases outlive any one call, so they are returned by `release`, not by leaving a scope.
 */
export class PortLeases {
  readonly #range: PortRange;
  readonly #host: HostPorts;
  /** Owner, as `processKey` names it, by port. */
  readonly #held = new Map<number, string>();

  constructor(range: PortRange, host: HostPorts) {
    this.#range = range;
    this.#host = host;
  }

  /** Leases that port to the process, in place of the one that it holds; undefined when another holds it. */
  reserve(process: SlotProcess, port: number): number | undefined {
    const owner = processKey(process);
    const holder = this.#held.get(port);
    if (holder !== undefined && holder !== owner) return undefined;
    for (const [other, each] of this.#held) if (each === owner) this.#held.delete(other);
    this.#held.set(port, owner);
    return port;
  }

  /**
   * The port that the process holds, or the lowest free one of the range that is not in `avoid`; undefined without any.
   * A foreign listener on a held port makes its holder move. Leases nothing.
   */
  find(process: SlotProcess, avoid?: ReadonlySet<number>): number | undefined {
    const owner = processKey(process);
    for (const [port, holder] of this.#held) {
      if (holder === owner && !this.#host.isTakenByStranger(port, process)) return port;
    }
    const busy = this.#host.listening();
    for (let port = this.#range.first; port <= this.#range.last; port++) {
      if (this.#held.has(port) || avoid?.has(port) === true || busy?.has(port) === true) continue;
      return port;
    }
    return undefined;
  }

  /** The holder of the port, as `processKey` names it. */
  holder(port: number): string | undefined {
    return this.#held.get(port);
  }

  /** Releases one role's port, or all of the slot's. */
  release(slot: string, process?: ProcessRef): void {
    const owner = process === undefined ? undefined : processKey({ ...process, slot });
    for (const [port, holder] of this.#held) {
      if (owner === undefined ? holder.startsWith(`${slot}/`) : holder === owner) this.#held.delete(port);
    }
  }
}

/**
 * Leases for the range, with those of every recorded engine: running ones, and those that an earlier operator had not
 * removed. Nothing else needs to be stored: an engine has a record as long as its slot has a port.
 */
export async function openPortLeases(
  host: HostPorts,
  range: PortRange,
  held: readonly HeldPort[] = [],
): Promise<PortLeases> {
  const leases = new PortLeases(range, host);
  for (const { hasEnded, port, ...process } of await host.recorded()) {
    const isInRange = port >= range.first && port <= range.last;
    // A port of another range counts only for a process that may still run on it.
    if (isInRange || !hasEnded) leases.reserve(process, port);
  }
  // Not every runtime has a record on disk.
  for (const process of held) leases.reserve(process, process.port);
  return leases;
}
