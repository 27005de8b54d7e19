import type { HardwareFacts } from "../../api/hardware.ts";
import { operatorMetrics } from "../../api/metrics/operator.ts";
import { labelText, type Sample } from "../../lib/metrics/spec.ts";

/** The memory of a GPU, in bytes. */
export interface GpuFacts {
  readonly device: string;
  readonly totalBytes: number;
  /** Undefined: not known. */
  readonly freeBytes: number | undefined;
}

/** The GPUs whose own memory is known. One that shares the machine's memory has none. */
export function gpuMemoryOf({ gpus }: Pick<HardwareFacts, "gpus">): readonly GpuFacts[] {
  return gpus.flatMap(({ id, memory_bytes: all, memory_usable_bytes: usable, memory_free_bytes: free }) => {
    const totalBytes = usable ?? all;
    return totalBytes === null ? [] : [{ device: id, totalBytes, freeBytes: free ?? undefined }];
  });
}

/** A probe runs vendors' programs: not at each scrape. */
const restMs = 60_000;

/** The memory of GPUs, asked for again while somebody scrapes. A scrape never waits for the answer. */
export class GpuMemory {
  readonly #query: (() => Promise<readonly GpuFacts[]>) | undefined;
  readonly #now: () => number;
  #known: readonly GpuFacts[] = [];
  #pending: Promise<void> | undefined;
  #queriedAt = Number.NEGATIVE_INFINITY;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(ask: (() => Promise<readonly GpuFacts[]>) | undefined, now: () => number = () => performance.now()) {
    this.#query = ask;
    this.#now = now;
  }

  *samples(of: "totalBytes" | "freeBytes"): Iterable<Sample> {
    this.#refresh();
    for (const { device, [of]: bytes } of this.#known)
      if (bytes !== undefined) yield [labelText(operatorMetrics.gpuMemoryTotal.labels, { device }), bytes];
  }

  #refresh(): void {
    if (this.#query === undefined || this.#pending !== undefined || this.#now() - this.#queriedAt < restMs) return;
    this.#queriedAt = this.#now();
    this.#pending = this.#query()
      .then((known) => void (this.#known = known))
      // A machine whose driver hangs has no figures, rather than old ones.
      .catch(() => void (this.#known = []))
      .finally(() => (this.#pending = undefined));
  }
}
