import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "../../support/until.ts";
import type { HeapSample } from "../programs/spec.ts";
import type { PartOptions } from "./site.ts";

const hook = fileURLToPath(new URL("../programs/heap-hook.ts", import.meta.url));

/** Asks a gateway that was started with `options` what it holds, after a full collection. */
export class HeapGauge {
  readonly #file: string;
  #taken = 0;

  constructor(directory: string) {
    this.#file = join(directory, "heap.jsonl");
  }

  get options(): PartOptions {
    return { nodeFlags: ["--import", hook], env: { BENCH_HEAP_FILE: this.#file } };
  }

  async sample(pid: number): Promise<HeapSample> {
    process.kill(pid, "SIGUSR2");
    this.#taken += 1;
    const lines = await until("the gateway tells its memory", async () => {
      const found = (await readFile(this.#file, "utf8").catch(() => "")).trim().split("\n");
      return found.length === this.#taken && found[0] !== "" ? found : undefined;
    });
    const last: HeapSample = JSON.parse(lines.at(-1) ?? "{}");
    return last;
  }
}
