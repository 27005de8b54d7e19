import type { DeviceNode, Gpu } from "../api/hardware.ts";
import type { Machine } from "./machine.ts";
import { kfdNodes, type KfdNode } from "./kfd.ts";
import { nvidiaGpus, type NvidiaGpu } from "./nvidia.ts";
import { addressIn, pciName, type PciDevice } from "./pci.ts";
import { EvidenceReader } from "./evidence-reader.ts";

const vendors: Readonly<Record<string, Gpu["vendor"]>> = { "1002": "amd", "10de": "nvidia", "8086": "intel" };

/** The sources of a GPU's description, beside its own files. */
interface GpuSources {
  readonly machine: Machine;
  readonly paths: ReadonlySet<string>;
  /** Render nodes by PCI address. */
  readonly renderNodes: ReadonlyMap<string, string>;
  readonly kfd: ReadonlyMap<string, KfdNode>;
  readonly nvidia: ReadonlyMap<string, NvidiaGpu>;
}

/** Display controllers of the PCI bus, and render nodes of devices that are on no PCI bus. */
export async function probeGpus(
  machine: Machine,
  pci: readonly PciDevice[],
  devices: readonly DeviceNode[],
  options: { signal: AbortSignal | undefined; problems: EvidenceReader },
): Promise<Gpu[]> {
  const { problems } = options;
  const paths = new Set(devices.map(({ path }) => path));
  const { renderNodes, others } = await drmNodes(problems);
  const signal = paths.has("/dev/nvidiactl") ? options.signal : undefined;
  const sources: GpuSources = {
    machine,
    paths,
    renderNodes,
    kfd: await kfdNodes(problems),
    nvidia: await nvidiaGpus(machine, problems, signal),
  };
  const gpus: Gpu[] = [];
  for (const device of pci) if (device.class.startsWith("0x03")) gpus.push(await onPci(device, sources));
  for (const { name, id, driver } of others) gpus.push(elsewhere(name, id, driver, paths));
  return gpus;
}

async function onPci(pci: PciDevice, around: GpuSources): Promise<Gpu> {
  const reader = new EvidenceReader(around.machine);
  const { address, directory, driver } = pci;
  const vendor = vendors[pci.vendor] ?? "other";
  reader.note(
    directory,
    `${pci.vendor}:${pci.device}, ${driver === undefined ? "no driver bound" : `driver ${driver}`}`,
  );
  const node = around.renderNodes.get(address);
  const renderNode = node === undefined ? undefined : `/dev/dri/${node}`;
  const kfd = node === undefined ? undefined : around.kfd.get(node);
  const nvidia = around.nvidia.get(address);
  const backends: Gpu["backends"] = [];
  if (driver === "nvidia" && around.paths.has("/dev/nvidiactl")) backends.push("cuda");
  if (renderNode !== undefined && around.paths.has(renderNode)) {
    if (kfd !== undefined && around.paths.has("/dev/kfd")) backends.push("rocm");
    backends.push("vulkan");
  } else if (renderNode !== undefined)
    reader.note(renderNode, "the kernel has it, /dev has not: as in a container without the device");
  if (kfd !== undefined) reader.note(kfd.source, `gfx_target_version ${kfd.version}`);
  return {
    id: address,
    vendor,
    vendor_id: pci.vendor,
    device_id: pci.device,
    name: nvidia?.name ?? (await nameOf(pci, around, reader)) ?? null,
    architecture: kfd?.architecture ?? null,
    integrated: isIntegrated(vendor, address, kfd?.architecture),
    driver: driver ?? null,
    memory_bytes: nvidia?.memoryBytes ?? (await reader.count(`${directory}/mem_info_vram_total`)) ?? null,
    ...known({
      memory_usable_bytes: nvidia?.usableBytes,
      memory_free_bytes: nvidia?.freeBytes ?? (await freeOf(directory, reader)),
      compute_capability: nvidia?.computeCapability,
      cuda_version: nvidia?.cudaVersion,
      mig: nvidia?.isMig,
    }),
    shared_memory_bytes: (await reader.count(`${directory}/mem_info_gtt_total`)) ?? null,
    ...known({ shared_memory_used_bytes: await reader.count(`${directory}/mem_info_gtt_used`) }),
    render_node: renderNode ?? null,
    backends,
    evidence: reader.evidence,
  };
}

/** Only the known facts of a GPU. */
function known(facts: { readonly [K in LaterFact]?: Gpu[K] }): Pick<Gpu, LaterFact> {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}
type LaterFact =
  | "memory_usable_bytes"
  | "memory_free_bytes"
  | "shared_memory_used_bytes"
  | "compute_capability"
  | "cuda_version"
  | "mig";

/** AMD's driver counts the used part of its own memory. */
async function freeOf(directory: string, reader: EvidenceReader): Promise<number | undefined> {
  const [total, used] = [
    await reader.count(`${directory}/mem_info_vram_total`),
    await reader.count(`${directory}/mem_info_vram_used`),
  ];
  return total === undefined || used === undefined ? undefined : Math.max(0, total - used);
}

async function nameOf(pci: PciDevice, { machine }: GpuSources, reader: EvidenceReader): Promise<string | undefined> {
  return (await reader.text(`${pci.directory}/product_name`)) ?? (await pciName(machine, pci.vendor, pci.device));
}

/** AMD GPUs that are part of a processor, by their ROCm names (https://llvm.org/docs/AMDGPUUsage.html, "APU"). */
const processors: ReadonlySet<string> = new Set(
  "gfx902 gfx909 gfx90c gfx1013 gfx1033 gfx1035 gfx1036 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153".split(" "),
);

/**
 * Intel's integrated GPU is always the second device of the first bus; NVIDIA's on PCI are cards; for AMD's the ROCm name
 * shows it.
 */
function isIntegrated(vendor: Gpu["vendor"], address: string, architecture: string | undefined): boolean | null {
  if (vendor === "intel") return address.endsWith(":00:02.0");
  if (vendor === "nvidia") return false;
  return vendor === "amd" && architecture !== undefined ? processors.has(architecture) : null;
}

function elsewhere(node: string, id: string, driver: string | undefined, paths: ReadonlySet<string>): Gpu {
  const renderNode = `/dev/dri/${node}`;
  return {
    id,
    vendor: "other",
    vendor_id: null,
    device_id: null,
    name: null,
    architecture: null,
    integrated: true,
    driver: driver ?? null,
    memory_bytes: null,
    shared_memory_bytes: null,
    render_node: renderNode,
    backends: paths.has(renderNode) ? ["vulkan"] : [],
    evidence: [
      {
        source: `/sys/class/drm/${node}`,
        says: `${id}, ${driver === undefined ? "no driver bound" : `driver ${driver}`}`,
      },
    ],
  };
}

interface OtherNode {
  readonly name: string;
  readonly id: string;
  readonly driver: string | undefined;
}

async function drmNodes(reader: EvidenceReader): Promise<{ renderNodes: Map<string, string>; others: OtherNode[] }> {
  const renderNodes = new Map<string, string>();
  const others: OtherNode[] = [];
  for (const name of await reader.names("/sys/class/drm")) {
    if (!/^renderD\d+$/.test(name)) continue;
    const path = `/sys/class/drm/${name}`;
    const address = addressIn((await reader.target(path)) ?? "");
    if (address !== undefined) renderNodes.set(address, name);
    else {
      const id = (await reader.linked(`${path}/device`)) ?? name;
      others.push({ name, id, driver: await reader.linked(`${path}/device/driver`) });
    }
  }
  return { renderNodes, others };
}
