import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

export const mebibyte = 1024 ** 2;
export const gibibyte = 1024 ** 3;

/** The first GPU as `nvidia-smi` reports it. */
export interface Card {
  readonly address: string;
  readonly name: string;
  readonly totalBytes: number;
  /** What the driver leaves of it. */
  readonly usableBytes: number;
  readonly freeBytes: number;
  readonly usedBytes: number;
  readonly computeCapability: string;
  readonly mig: string;
}

const fields = "pci.bus_id,name,memory.total,memory.reserved,memory.free,memory.used,compute_cap,mig.mode.current";

export async function readCard(): Promise<Card> {
  const text = await smi(`--query-gpu=${fields}`);
  const [address = "", name = "", total, reserved, free, used, computeCapability = "", mig = ""] = (
    text.split("\n")[0] ?? ""
  )
    .split(",")
    .map((field) => field.trim());
  const bytes = (field: string | undefined): number => Number(field) * mebibyte;
  return {
    // The kernel writes four digits of the domain, nvidia-smi eight.
    address: address.toLowerCase().replace(/^0000(?=....:)/, ""),
    name,
    totalBytes: bytes(total),
    usableBytes: bytes(total) - bytes(reserved),
    freeBytes: bytes(free),
    usedBytes: bytes(used),
    computeCapability,
    mig,
  };
}

/** The bytes that each process holds on the GPU, by pid. */
export async function holders(): Promise<ReadonlyMap<number, number>> {
  const text = await smi("--query-compute-apps=pid,used_memory");
  const found = new Map<number, number>();
  for (const line of text.split("\n")) {
    const [pid, used] = line.split(",").map((field) => Number(field));
    // Of a process that ends it may say [N/A].
    if (pid !== undefined && used !== undefined && pid > 0 && used >= 0)
      found.set(pid, (found.get(pid) ?? 0) + used * mebibyte);
  }
  return found;
}

/** What `nvidia-smi` without arguments prints: its first lines have the driver's CUDA version. */
export async function cudaVersion(): Promise<string | undefined> {
  return /CUDA Version: *(\d+\.\d+)/.exec((await run("nvidia-smi")).stdout)?.[1];
}

async function smi(query: string): Promise<string> {
  return (await run("nvidia-smi", [query, "--format=csv,noheader,nounits"])).stdout;
}

export interface Sample {
  readonly atMs: number;
  readonly usedBytes: number;
  readonly totalBytes: number;
  readonly holders: ReadonlyMap<number, number>;
}

/** Reads the GPU's memory every 50 ms while `work` runs. */
export async function sampled(work: () => Promise<void>): Promise<readonly Sample[]> {
  const samples: Sample[] = [];
  const done = new AbortController();
  const sampling = (async () => {
    while (!done.signal.aborted) {
      const atMs = performance.now();
      const [card, held] = await Promise.all([readCard(), holders()]);
      samples.push({ atMs, usedBytes: card.usedBytes, totalBytes: card.totalBytes, holders: held });
      const restMs = 50 - (performance.now() - atMs);
      if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs));
    }
  })();
  try {
    await work();
  } finally {
    done.abort();
    await sampling;
  }
  return samples;
}

export function mebibytes(bytes: number): string {
  return `${Math.round(bytes / mebibyte)} MiB`;
}
