import type { HeldPort } from "../../runtimes/host-ports.ts";
import { RuntimeUnavailable } from "../../runtimes/runtime-unavailable.ts";
import type { Runtimes } from "../../runtimes/runtime.ts";

/** Ports of running engines: not every runtime has a record on disk. */
export async function heldPorts(runtime: Runtimes): Promise<readonly HeldPort[]> {
  const held: HeldPort[] = [];
  for (const slot of await runtime.list()) {
    try {
      for (const { role, ordinal, port, phase } of await runtime.observe(slot))
        if (phase === "running") held.push({ slot, role, ordinal, port });
    } catch (error) {
      // The port is leased when the slot is reconciled; until then no automatic lease takes it, because the engine listens there.
      if (!(error instanceof RuntimeUnavailable)) throw error;
    }
  }
  return held;
}
