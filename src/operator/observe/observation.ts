import { publishedId } from "../../api/engine-identity.ts";
import type { RuntimeKind } from "../../api/names.ts";
import { bearerFor } from "../../api/published-slot.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import { RuntimeUnavailable } from "../../runtimes/runtime-unavailable.ts";
import type { Dependencies } from "../dependencies.ts";
import { runtimeOf } from "../plan/placing.ts";

/**
 * The running processes of the slot. Where a runtime that concerns it is unreachable, the last published processes
 * count as running: only probes can check them then, and nothing is started or stopped.
 */
export async function observe(
  dependencies: Dependencies,
  name: string,
  spec: SlotSpec | undefined,
  before: PublishedSlot | undefined,
): Promise<{ readonly observed: readonly Observed[]; readonly runtimeError?: string }> {
  const concerned = runtimesOf(dependencies, spec, before);
  try {
    return { observed: await dependencies.runtime.observe(name, concerned) };
  } catch (error) {
    if (!(error instanceof RuntimeUnavailable)) throw error;
    return { observed: lastPublished(dependencies, name, before), runtimeError: error.message };
  }
}

/** The answer, or the runtime's error: a runtime may become unreachable between two calls. */
export async function unlessUnreachable<T extends object>(
  answer: Promise<T>,
): Promise<T | { readonly runtimeError: string }> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof RuntimeUnavailable)) throw error;
    return { runtimeError: error.message };
  }
}

/**
 * The runtimes that concern the slot: its present one, and those of its processes. If one of them is unreachable,
 * nothing is known about the slot.
 */
export function runtimesOf(
  { runtime, defaultRuntime }: Dependencies,
  spec: SlotSpec | undefined,
  before: PublishedSlot | undefined,
): readonly RuntimeKind[] {
  const declared = spec?.runtime === "auto" ? defaultRuntime : spec?.runtime;
  const { processes = [], runtime: ranIn } = before?.status ?? {};
  return runtime.kinds.filter((kind) => {
    const identity = runtime.traitsOf(kind)?.identity;
    const isFound = identity !== undefined && processes.some((process) => process[identity] !== undefined);
    return isFound || ranIn === kind || (declared === kind && spec?.enabled === true);
  });
}

/** The published processes of the unreachable runtimes. */
function lastPublished(
  { runtime }: Pick<Dependencies, "runtime">,
  slot: string,
  before: PublishedSlot | undefined,
): readonly Observed[] {
  const { processes = [], workloadHash = "" } = before?.status ?? {};
  return processes.flatMap((process) => {
    const { role, ordinal, host, port, startedAt } = process;
    const id = publishedId(process);
    const kind = id === undefined ? undefined : runtimeOf(runtime, { id });
    if (id === undefined || startedAt === undefined || kind === undefined || runtime.answers(kind)) return [];
    const seen = { phase: "running", isListening: true, isPortTaken: false, startedAt: new Date(startedAt) } as const;
    const bearer = bearerFor(before, { role, ordinal });
    return [{ slot, role, ordinal, host, port, hash: workloadHash, ...seen, ...bearer, id }];
  });
}
