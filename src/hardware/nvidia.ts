import { errorCode, errorMessage } from "../lib/error-code.ts";
import type { Machine } from "./machine.ts";
import { countIn, fieldsOf, type EvidenceReader } from "./evidence-reader.ts";

/** The facts that NVIDIA's driver reports about a GPU. */
export interface NvidiaGpu {
  readonly name: string | undefined;
  readonly memoryBytes: number | undefined;
  /** The part that programs may use: the driver keeps the rest. */
  readonly usableBytes?: number | undefined;
  readonly freeBytes?: number | undefined;
  /** `9.0`. */
  readonly computeCapability?: string | undefined;
  /** The newest CUDA version that the driver supports, `13.0`. */
  readonly cudaVersion?: string | undefined;
  readonly isMig?: boolean | undefined;
}

/** nvidia-smi may hang with its driver. */
const limitMs = 5000;
const program = "nvidia-smi";
const mebibyte = 1024 ** 2;

/**
 * GPUs by PCI address: names from /proc/driver/nvidia, memory from `nvidia-smi` where it is installed, until `stop`
 * is aborted. (https://docs.nvidia.com/deploy/nvidia-smi/)
 */
export async function nvidiaGpus(
  machine: Machine,
  reader: EvidenceReader,
  stop: AbortSignal | undefined,
): Promise<ReadonlyMap<string, NvidiaGpu>> {
  const gpus = new Map<string, NvidiaGpu>();
  const directory = "/proc/driver/nvidia/gpus";
  for (const address of await reader.names(directory)) {
    const fields = fieldsOf((await reader.text(`${directory}/${address}/information`)) ?? "");
    gpus.set(address.toLowerCase(), { name: fields.get("Model"), memoryBytes: undefined });
  }
  if (stop === undefined) return gpus;
  const signal = AbortSignal.any([stop, AbortSignal.timeout(limitMs)]);
  try {
    const text = await queryGpus(machine, signal);
    const cudaVersion = /CUDA Version: *(\d+\.\d+)/.exec(await machine.run(program, [], signal).catch(() => ""))?.[1];
    for (const line of text.split("\n")) {
      const [id = "", name, total, reserved, free, capability, mig] = line.split(",").map((field) => field.trim());
      if (!id.includes(":")) continue;
      const memoryBytes = countIn(total, mebibyte);
      const kept = countIn(reserved, mebibyte);
      gpus.set(addressOf(id), {
        name,
        memoryBytes,
        usableBytes: memoryBytes === undefined || kept === undefined ? undefined : memoryBytes - kept,
        freeBytes: countIn(free, mebibyte),
        computeCapability: /^\d+\.\d+$/.test(capability ?? "") ? capability : undefined,
        cudaVersion,
        isMig: mig === "Enabled" ? true : mig === "Disabled" ? false : undefined,
      });
    }
  } catch (error) {
    reader.note(program, errorCode(error) === "ENOENT" ? "is not on PATH: memory is not known" : messageOf(error));
  }
  return gpus;
}

const fields = ["pci.bus_id", "name", "memory.total"];
/** Fields that a driver may lack: it then refuses the whole query. */
const moreFields = ["memory.reserved", "memory.free", "compute_cap", "mig.mode.current"];

async function queryGpus(machine: Machine, signal: AbortSignal): Promise<string> {
  const query = (names: readonly string[]): string[] => [
    `--query-gpu=${names.join(",")}`,
    "--format=csv,noheader,nounits",
  ];
  try {
    return await machine.run(program, query([...fields, ...moreFields]), signal);
  } catch (error) {
    if (errorCode(error) === "ENOENT" || signal.aborted) throw error;
    return await machine.run(program, query(fields), signal);
  }
}

/** The address in the kernel's form: the tool has eight digits of domain, the kernel four. */
export function addressOf(id: string): string {
  return id.toLowerCase().replace(/^0{4}(?=[0-9a-f]{4}:)/, "");
}

function messageOf(error: unknown): string {
  const [line = ""] = errorMessage(error).split("\n");
  return `failed: ${line}`;
}
