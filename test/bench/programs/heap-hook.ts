/**
 * Loaded into the gateway before its program (`--expose-gc --import`): on SIGUSR2 it collects, and adds a line of JSON
 * to the file that BENCH_HEAP_FILE names. Nothing of the product knows of it.
 */
import { appendFileSync } from "node:fs";
import type { HeapSample } from "./spec.ts";

process.on("SIGUSR2", () => {
  globalThis.gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  const resources: Record<string, number> = {};
  for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1;
  const sample: HeapSample = { rss, heapUsed, external, resources };
  appendFileSync(process.env["BENCH_HEAP_FILE"] ?? "heap.jsonl", `${JSON.stringify(sample)}\n`);
});
