import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { HashThread } from "../../../src/models/fetch/hash-thread.ts";
import { hubFrom } from "../../../src/models/fetch/hub.ts";
import { ModelFetch } from "../../../src/models/fetch/model-fetch.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { RateLimit } from "../../../src/models/fetch/rate-limit.ts";

/** Fetches one model: `program.ts MODELS_DIR REF SOURCE…`. Prints the most memory that it had above its beginning. */
const [, , modelsDir = "", ref = "", ...sources] = process.argv;
const before = process.memoryUsage.rss();
let peak = before;
const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 20);
const hashThread = new HashThread();
const fetch = new ModelFetch({
  store: await BlobStore.open(modelsDir, "this boot"),
  hashThread,
  network: { hub: hubFrom(process.env), connectMs: 15_000, stallMs: 30_000, retryMs: 250 },
  rate: new RateLimit(),
  reserveBytes: 0,
  connections: 4,
});
const began = performance.now();
const wanted = { ref, files: sources.map((source) => ({ source })), isOpen: false };
const { files } = await fetch.fetch(wanted, newProgress(), new AbortController().signal);
const seconds = (performance.now() - began) / 1000;
clearInterval(timer);
await hashThread[Symbol.asyncDispose]();
process.stdout.write(JSON.stringify({ seconds, grownBytes: peak - before, sha256: files[0]?.sha256 }));
