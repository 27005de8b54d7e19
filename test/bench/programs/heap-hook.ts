/**
 * Loaded into the gateway before its program (`--import`): on SIGUSR2 it collects, and adds a line of JSON to the file
 * that BENCH_HEAP_FILE names. Nothing of the product knows of it.
 */
import { appendFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { HeapSample } from "./spec.ts";

// NODE_OPTIONS, which is how flags reach the gateway, does not take this one.
setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

process.on("SIGUSR2", () => {
  collect();
  const { rss, heapUsed, external } = process.memoryUsage();
  const resources: Record<string, number> = {};
  for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1;
  const sample: HeapSample = { rss, heapUsed, external, resources };
  appendFileSync(process.env["BENCH_HEAP_FILE"] ?? "heap.jsonl", `${JSON.stringify(sample)}\n`);
});
