import type { DeviceNode, Gpu } from "../api/hardware.ts";
import type { Machine } from "./machine.ts";
import { kfdNodes, type KfdNode } from "./kfd.ts";
import { nvidiaGpus, type NvidiaGpu } from "./nvidia.ts";
import { addressIn, pciName, type PciDevice } from "./pci.ts";
import { Witness } from "./witness.ts";

const vendors: Readonly<Record<string, Gpu["vendor"]>> = { "1002": "amd", "10de": "nvidia", "8086": "intel" };

/** What a GPU is described from, beside its own files. */
interface Surroundings {
  readonly machine: Machine;
  readonly paths: ReadonlySet<string>;
  /** Render nodes by PCI address. */
  readonly renderNodes: ReadonlyMap<string, string>;
  readonly kfd: ReadonlyMap<string, KfdNode>;
  readonly nvidia: ReadonlyMap<string, NvidiaGpu>;
}

/** Display controllers of the PCI bus, and render nodes of what is on none. */
export async function lookAtGpus(
  machine: Machine,
  pci: readonly PciDevice[],
  devices: readonly DeviceNode[],
  options: { asking: AbortSignal | undefined; problems: Witness },
): Promise<Gpu[]> {
  const { problems } = options;
  const paths = new Set(devices.map(({ path }) => path));
  const { renderNodes, others } = await drmNodes(problems);
  const asking = paths.has("/dev/nvidiactl") ? options.asking : undefined;
  const surroundings: Surroundings = {
    machine,
    paths,
    renderNodes,
    kfd: await kfdNodes(problems),
    nvidia: await nvidiaGpus(machine, problems, asking),
  };
  const gpus: Gpu[] = [];
  for (const device of pci) if (device.class.startsWith("0x03")) gpus.push(await onPci(device, surroundings));
  for (const { name, id, driver } of others) gpus.push(elsewhere(name, id, driver, paths));
  return gpus;
}

async function onPci(pci: PciDevice, around: Surroundings): Promise<Gpu> {
  const witness = new Witness(around.machine);
  const { address, directory, driver } = pci;
  const vendor = vendors[pci.vendor] ?? "other";
  witness.note(
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
    witness.note(renderNode, "the kernel has it, /dev has not: as in a container that was not given it");
  if (kfd !== undefined) witness.note(kfd.source, `gfx_target_version ${kfd.version}`);
  return {
    id: address,
    vendor,
    vendor_id: pci.vendor,
    device_id: pci.device,
    name: nvidia?.name ?? (await nameOf(pci, around, witness)) ?? null,
    architecture: kfd?.architecture ?? null,
    integrated: isIntegrated(vendor, address),
    driver: driver ?? null,
    memory_bytes: nvidia?.memoryBytes ?? (await witness.count(`${directory}/mem_info_vram_total`)) ?? null,
    ...known({
      memory_usable_bytes: nvidia?.usableBytes,
      memory_free_bytes: nvidia?.freeBytes ?? (await freeOf(directory, witness)),
      compute_capability: nvidia?.computeCapability,
      cuda_version: nvidia?.cudaVersion,
      mig: nvidia?.isMig,
    }),
    shared_memory_bytes: (await witness.count(`${directory}/mem_info_gtt_total`)) ?? null,
    render_node: renderNode ?? null,
    backends,
    evidence: witness.evidence,
  };
}

/** What is not known of a GPU is not said of it. */
function known(facts: { readonly [K in LaterFact]: Gpu[K] }): Pick<Gpu, LaterFact> {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}
type LaterFact = "memory_usable_bytes" | "memory_free_bytes" | "compute_capability" | "cuda_version" | "mig";

/** AMD's driver counts what is used of its own memory. */
async function freeOf(directory: string, witness: Witness): Promise<number | undefined> {
  const [total, used] = [
    await witness.count(`${directory}/mem_info_vram_total`),
    await witness.count(`${directory}/mem_info_vram_used`),
  ];
  return total === undefined || used === undefined ? undefined : Math.max(0, total - used);
}

async function nameOf(pci: PciDevice, { machine }: Surroundings, witness: Witness): Promise<string | undefined> {
  return (await witness.text(`${pci.directory}/product_name`)) ?? (await pciName(machine, pci.vendor, pci.device));
}

/** Intel's own is always the second device of the first bus; NVIDIA's on PCI are cards; of AMD's nothing tells. */
function isIntegrated(vendor: Gpu["vendor"], address: string): boolean | null {
  if (vendor === "intel") return address.endsWith(":00:02.0");
  return vendor === "nvidia" ? false : null;
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

async function drmNodes(witness: Witness): Promise<{ renderNodes: Map<string, string>; others: OtherNode[] }> {
  const renderNodes = new Map<string, string>();
  const others: OtherNode[] = [];
  for (const name of await witness.names("/sys/class/drm")) {
    if (!/^renderD\d+$/.test(name)) continue;
    const path = `/sys/class/drm/${name}`;
    const address = addressIn((await witness.target(path)) ?? "");
    if (address !== undefined) renderNodes.set(address, name);
    else {
      const id = (await witness.linked(`${path}/device`)) ?? name;
      others.push({ name, id, driver: await witness.linked(`${path}/device/driver`) });
    }
  }
  return { renderNodes, others };
}
