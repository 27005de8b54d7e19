import type { ProcessRole } from "../api/names.ts";
import type { SlotSpec } from "../api/slot.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { Observed } from "../api/workload.ts";
import type { ProbeTarget } from "../engines/engine.ts";
import type { Health } from "./input.ts";
import type { Probe } from "./probe.ts";

interface Memory extends Health {
  /** Which process this is about; another one starts from nothing. */
  readonly process: string;
  readonly probedAt: number;
}

const unknown: Health = { isHealthy: false, isWarm: false, failures: 0, message: "", listeningAt: undefined };

/** What probing has shown, per process. Only the owner of a slot's key calls it for that slot. */
export class HealthBook {
  readonly #memory = new Map<string, Memory>();
  readonly #probe: Probe;

  constructor(probe: Probe) {
    this.#probe = probe;
  }

  /**
   * Probes what is due: at every look until the process is warm, then once per interval. A process that an earlier
   * operator had published as ready counts as warm once it answers: it is adopted, not warmed again.
   */
  async look(
    process: Observed,
    target: ProbeTarget,
    spec: SlotSpec,
    published: PublishedSlot | undefined,
    now: Date,
    /** Nothing but a probe can tell how it is. */
    isBlind = false,
  ): Promise<Health> {
    const key = keyOf(process.slot, process.role);
    const identity = identityOf(process);
    const remembered = this.#memory.get(key);
    const memory: Memory =
      remembered?.process === identity ? remembered : { ...unknown, process: identity, probedAt: 0 };
    if (!process.isListening) {
      this.#memory.set(key, memory);
      return memory;
    }
    const isDue =
      isBlind ||
      !memory.isWarm ||
      memory.failures > 0 ||
      now.getTime() - memory.probedAt >= spec.probe.intervalSeconds * 1000 - 50;
    if (!isDue) return memory;
    const result = await this.#probe({
      port: process.port,
      path: target.path,
      timeoutMs: spec.probe.timeoutSeconds * 1000,
    });
    const isHealthy = result.outcome === "healthy";
    const next: Memory = {
      process: identity,
      probedAt: now.getTime(),
      listeningAt: memory.listeningAt ?? now,
      isHealthy,
      isWarm: memory.isWarm || (isHealthy && (target.warmUp === undefined || wasReady(process, published))),
      failures: isHealthy ? 0 : memory.failures + 1,
      message: isHealthy ? "" : result.message,
    };
    this.#memory.set(key, next);
    return next;
  }

  /** Sends the warm-up request. A failure leaves the process warming, until its start-up time is over. */
  async warm(process: Observed, target: ProbeTarget, timeoutMs: number): Promise<Health> {
    const key = keyOf(process.slot, process.role);
    const memory = this.#memory.get(key) ?? { ...unknown, process: identityOf(process), probedAt: 0 };
    const { warmUp } = target;
    const result =
      warmUp === undefined
        ? ({ outcome: "healthy" } as const)
        : await this.#probe({
            port: process.port,
            path: warmUp.path,
            timeoutMs,
            ...("body" in warmUp ? { body: warmUp.body } : { form: warmUp }),
          });
    const isWarm = result.outcome === "healthy";
    const next: Memory = { ...memory, isWarm, isHealthy: isWarm, message: isWarm ? "" : result.message };
    this.#memory.set(key, next);
    return next;
  }

  forget(slot: string): void {
    for (const key of this.#memory.keys()) if (key.startsWith(`${slot}/`)) this.#memory.delete(key);
  }
}

const keyOf = (slot: string, role: ProcessRole): string => `${slot}/${role}`;

function identityOf(process: Observed): string {
  return `${JSON.stringify(process.id)} ${process.startedAt.toISOString()}`;
}

function wasReady(process: Observed, published: PublishedSlot | undefined): boolean {
  const before = published?.status.processes.find(({ role }) => role === process.role);
  if (before?.isReady !== true) return false;
  return "pid" in process.id
    ? before.pid === process.id.pid
    : "containerId" in process.id && before.containerId === process.id.containerId && isSameStart(before, process);
}

/** A container that somebody else has restarted keeps its id, and has loaded nothing yet. */
function isSameStart(before: { readonly startedAt?: string | undefined }, process: Observed): boolean {
  return before.startedAt === process.startedAt.toISOString();
}
