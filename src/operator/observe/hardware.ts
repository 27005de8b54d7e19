import { isDeepStrictEqual } from "node:util";
import type { Cpu, HardwareFacts } from "../../api/hardware.ts";
import type { PublishedSlot } from "../../api/status.ts";
import { devicesBehind, devicesOf } from "../../engines/placement.ts";
import { backoffMs, defaultBackoff } from "../plan/backoff.ts";
import type { Machine } from "../plan/placing.ts";
import { withSuggestions } from "../../engines/suggestion.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { HardwareStore } from "../../store/state/hardware.ts";
import type { SlotMemories } from "../slot-memory.ts";

/** Each attempt runs vendors' programs, and logs why it has failed. */
const longestRetryMs = 60_000;

/** Probes the machine. Vendors' programs are run until the signal is aborted; undefined: not at all. */
export type ProbeHardware = (signal: AbortSignal | undefined) => Promise<HardwareFacts>;

export interface KnownHardware extends Required<Machine>, AsyncDisposable {
  /** As of the last probe; facts of vendors' programs are missing until these were first run. */
  facts(): HardwareFacts;
}

/**
 * Probes at once, then at every request of a gateway, and publishes the result. Resolves after the first probe. A paused
 * operator probes once, without vendors' programs, and publishes only where nobody has.
 */
export async function followHardware(options: {
  store: HardwareStore;
  probe: ProbeHardware;
  isPaused?: boolean;
  /** Keep the devices that each slot's backend was chosen for. */
  memories: Pick<SlotMemories, "of">;
  /** The state of an earlier operator: running engines keep their backend. */
  published?: Iterable<PublishedSlot>;
  onError: (error: unknown) => void;
  /** The delay before a result that could not be published is written again; longer after each further failure. */
  retryMs?: number;
  /** Calls the task after so many milliseconds; absent: by a timer that keeps no process. */
  after?: (ms: number, task: () => void) => NodeJS.Timeout;
}): Promise<KnownHardware> {
  const { store, probe, memories, after = (ms, task) => setTimeout(task, ms).unref() } = options;
  const closing = new AbortController();
  const { signal } = closing;
  let current = withSuggestions(await probe(undefined));
  const subscribers = new Subscribers<[]>();
  let running: Promise<void> | undefined;
  let again: NodeJS.Timeout | undefined;
  let failures = 0;
  const probeOnce = async (): Promise<void> => {
    // The token of the request before the probe: a request during the probe is answered by another one.
    const answers = store.pending()?.token ?? store.found()?.answers;
    const facts = await probe(signal);
    if (signal.aborted) return;
    const before = devicesOf(current);
    current = withSuggestions(facts);
    if (!isDeepStrictEqual(devicesOf(current), before)) subscribers.notify();
    await store.publish({ schema: 1, ...(answers === undefined ? {} : { answers }), hardware: current });
  };
  const start = (): void => {
    clearTimeout(again);
    running ??= probeOnce()
      .then(
        () => {
          failures = 0;
          return true;
        },
        (error: unknown) => {
          if (signal.aborted) return false;
          options.onError(error);
          failures += 1;
          const retry = { ...defaultBackoff, firstMs: options.retryMs ?? 5000, limitMs: longestRetryMs };
          again = after(backoffMs(failures, retry), start);
          return false;
        },
      )
      .then((isDone) => {
        running = undefined;
        if (isDone && store.pending() !== undefined && !signal.aborted) start();
      });
  };
  const isPaused = options.isPaused === true;
  const watching = store.watch(() => {
    if (!isPaused && store.pending() !== undefined) start();
  });
  if (!isPaused) start();
  else if (store.found() === undefined) await store.publish({ schema: 1, hardware: current }).catch(options.onError);
  for (const { name, spec, status } of options.published ?? []) {
    const backend = spec.backend === "auto" ? status.decisions["backend"] : undefined;
    if (backend !== undefined) memories.of(name).devices = devicesBehind(backend.value);
  }
  return {
    devicesFor(slot, isRunning) {
      const memory = memories.of(slot);
      const known = isRunning ? memory.devices : undefined;
      return (memory.devices = known ?? devicesOf(current));
    },
    facts: () => current,
    cores: () => coresOf(current.cpu),
    memory: () => ({
      hostBytes: current.memory.usable_bytes ?? undefined,
      // Vendors' programs are run after the first probe: until then an earlier operator's result counts.
      gpuBytes: gpuBytesOf(current) ?? gpuBytesOf(store.found()?.hardware),
    }),
    watch: (onChange) => subscribers.add(onChange),
    async [Symbol.asyncDispose]() {
      closing.abort();
      subscribers.clear();
      watching[Symbol.dispose]();
      clearTimeout(again);
      await running;
    },
  };
}

/**
 * Physical cores: a second thread of a core computes nothing more (llama.cpp waits for the slowest), and neither does a
 * core that the control group does not pay for.
 */
export function coresOf({ cores, engine_cores: ours, usable }: Cpu): ReturnType<KnownHardware["cores"]> {
  const known = ours ?? cores;
  if (known === null) return undefined;
  const limit = usable === null ? known : Math.max(1, Math.floor(usable));
  if (limit < known)
    return { count: limit, what: `${limit} of ${cores ?? known} cores, as affinity or control group allow` };
  return {
    count: known,
    what: ours === undefined ? `${known} cores` : `${known} of ${cores ?? known} cores, the fastest that may be used`,
  };
}

function gpuBytesOf(hardware: Pick<HardwareFacts, "gpus"> | undefined): number | undefined {
  const known = (hardware?.gpus ?? []).flatMap((gpu) => {
    if (gpu.backends.length === 0 || gpu.memory_bytes === null) return [];
    return gpu.memory_usable_bytes ?? gpu.memory_bytes + (gpu.integrated === true ? (gpu.shared_memory_bytes ?? 0) : 0);
  });
  return known.length === 0 ? undefined : Math.max(...known);
}
