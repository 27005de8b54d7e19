import { isDeepStrictEqual } from "node:util";
import type { HardwareFacts } from "../api/hardware.ts";
import type { PublishedSlot } from "../api/status.ts";
import { devicesBehind, devicesOf, type Devices } from "../engines/placement.ts";
import { withSuggestions } from "../engines/suggestion.ts";
import { Subscribers } from "../lib/subscribers.ts";
import type { HardwareStore } from "../store/hardware.ts";

/** Looks at the machine. Vendors' programs are asked until `asking` is aborted; undefined: not at all. */
export type Look = (asking: AbortSignal | undefined) => Promise<HardwareFacts>;

export interface KnownHardware extends AsyncDisposable {
  /**
   * What decides an automatic backend. Of a slot that runs: as it was when the slot was last seen with nothing running,
   * so that a driver that is loaded meanwhile restarts no engine (DECISIONS 2).
   */
  devicesFor(slot: string, isRunning: boolean): Devices;
  /** Bytes that engines may use of this machine's memory, and of its largest GPU; undefined: not known. */
  memory(): { readonly hostBytes: number | undefined; readonly gpuBytes: number | undefined };
  /** Calls `onChange` when a look has found other devices. */
  watch(onChange: () => void): Disposable;
}

/** Looks at once, then whenever a gateway has asked, and publishes what was found. Resolves after the first look. */
export async function followHardware(options: {
  store: HardwareStore;
  look: Look;
  /** What an earlier operator has published: engines that still run keep their backend. */
  published?: Iterable<PublishedSlot>;
  onError: (error: unknown) => void;
  /** Rest before a look that could not be published is tried again. */
  againMs?: number;
}): Promise<KnownHardware> {
  const { store, look } = options;
  const closing = new AbortController();
  const { signal } = closing;
  let current = withSuggestions(await look(undefined));
  const subscribers = new Subscribers<[]>();
  let running: Promise<void> | undefined;
  let again: NodeJS.Timeout | undefined;
  const lookOnce = async (): Promise<void> => {
    // Of the request that was there before: one that comes while it looks is answered by another look.
    const answers = store.pending()?.token ?? store.found()?.answers;
    const facts = await look(signal);
    if (signal.aborted) return;
    const before = devicesOf(current);
    current = withSuggestions(facts);
    if (!isDeepStrictEqual(devicesOf(current), before)) subscribers.tell();
    await store.publish({ schema: 1, ...(answers === undefined ? {} : { answers }), hardware: current });
  };
  const start = (): void => {
    clearTimeout(again);
    running ??= lookOnce()
      .then(
        () => true,
        (error: unknown) => {
          if (signal.aborted) return false;
          options.onError(error);
          again = setTimeout(start, options.againMs ?? 5000);
          again.unref();
          return false;
        },
      )
      .then((isDone) => {
        running = undefined;
        if (isDone && store.pending() !== undefined && !signal.aborted) start();
      });
  };
  const watching = store.watch(() => {
    if (store.pending() !== undefined) start();
  });
  start();
  const decided = new Map<string, Devices>();
  for (const { name, spec, status } of options.published ?? []) {
    const backend = spec.backend === "auto" ? status.decisions["backend"] : undefined;
    if (backend !== undefined) decided.set(name, devicesBehind(backend.value));
  }
  return {
    devicesFor(slot, isRunning) {
      const known = isRunning ? decided.get(slot) : undefined;
      const devices = known ?? devicesOf(current);
      decided.set(slot, devices);
      return devices;
    },
    memory: () => ({
      hostBytes: current.memory.usable_bytes ?? undefined,
      // Vendors' programs are asked after the first look: until then what an earlier operator has found counts.
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

function gpuBytesOf(hardware: Pick<HardwareFacts, "gpus"> | undefined): number | undefined {
  const known = (hardware?.gpus ?? []).flatMap((gpu) => {
    if (gpu.backends.length === 0 || gpu.memory_bytes === null) return [];
    return gpu.memory_usable_bytes ?? gpu.memory_bytes + (gpu.integrated === true ? (gpu.shared_memory_bytes ?? 0) : 0);
  });
  return known.length === 0 ? undefined : Math.max(...known);
}
