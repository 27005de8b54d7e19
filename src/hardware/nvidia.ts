import { errorCode, errorMessage } from "../lib/error-code.ts";
import type { Machine } from "./machine.ts";
import { countIn, fieldsOf, type Witness } from "./witness.ts";

/** What NVIDIA's driver tells of a GPU. */
export interface NvidiaGpu {
  readonly name: string | undefined;
  readonly memoryBytes: number | undefined;
}

/** nvidia-smi may wait for a driver that is stuck. */
const limitMs = 5000;
const program = "nvidia-smi";

/**
 * GPUs by PCI address: names from /proc/driver/nvidia, memory from `nvidia-smi` where that is there and `asking` says until when.
 * (https://docs.nvidia.com/deploy/nvidia-smi/)
 */
export async function nvidiaGpus(
  machine: Machine,
  witness: Witness,
  asking: AbortSignal | undefined,
): Promise<ReadonlyMap<string, NvidiaGpu>> {
  const gpus = new Map<string, NvidiaGpu>();
  const directory = "/proc/driver/nvidia/gpus";
  for (const address of await witness.names(directory)) {
    const fields = fieldsOf((await witness.text(`${directory}/${address}/information`)) ?? "");
    gpus.set(address.toLowerCase(), { name: fields.get("Model"), memoryBytes: undefined });
  }
  if (asking === undefined) return gpus;
  const signal = AbortSignal.any([asking, AbortSignal.timeout(limitMs)]);
  const query = ["--query-gpu=pci.bus_id,name,memory.total", "--format=csv,noheader,nounits"];
  try {
    for (const line of (await machine.run(program, query, signal)).split("\n")) {
      const [id = "", name, mebibytes] = line.split(",").map((field) => field.trim());
      if (!id.includes(":")) continue;
      gpus.set(addressOf(id), { name, memoryBytes: countIn(mebibytes, 1024 ** 2) });
    }
  } catch (error) {
    witness.note(program, errorCode(error) === "ENOENT" ? "is not on PATH: memory is not known" : messageOf(error));
  }
  return gpus;
}

/** The tool writes eight digits of domain, the kernel four. */
function addressOf(id: string): string {
  return id.toLowerCase().replace(/^0{4}(?=[0-9a-f]{4}:)/, "");
}

function messageOf(error: unknown): string {
  const [line = ""] = errorMessage(error).split("\n");
  return `failed: ${line}`;
}
