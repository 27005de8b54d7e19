import type { HardwareFacts } from "../../api/hardware.ts";
import { memoryLeft } from "../../lib/memory-left.ts";
import type { ModelPulls } from "../../models/fetch/model-pulls.ts";
import type { RuntimeTraits } from "../../runtimes/runtime.ts";
import { gpuMemoryOf } from "./gpu-memory.ts";
import type { MetricSources } from "./metrics.ts";

/** A driver that hangs must not keep the page without figures for long. */
const probeMs = 3000;

/** The figures of the operator's page that others have. */
export function metricSources(options: {
  readonly pulls: Pick<ModelPulls, "counts" | "idle">;
  /** The traits of the runtime that slots get by default. */
  readonly traits: Pick<RuntimeTraits, "isElsewhere"> | undefined;
  readonly facts: () => Pick<HardwareFacts, "gpus">;
  readonly probe: (signal: AbortSignal) => Promise<Pick<HardwareFacts, "gpus">>;
  /** A paused operator starts no program. */
  readonly isPaused: boolean;
}): MetricSources {
  const { pulls, traits, facts, probe, isPaused } = options;
  return {
    pulls: () => pulls.counts(),
    idlePulls: () => pulls.idle(),
    // Engines that run elsewhere are in control groups of their own.
    ...(traits?.isElsewhere === true ? {} : { memory: () => memoryLeft() }),
    ...(isPaused
      ? {}
      : {
          gpus: async () => (facts().gpus.length === 0 ? [] : gpuMemoryOf(await probe(AbortSignal.timeout(probeMs)))),
        }),
  };
}
