import type { DeviceNode, Npu } from "../api/hardware.ts";
import type { Machine } from "./machine.ts";
import { addressIn, pciName, type PciDevice } from "./pci.ts";
import { EvidenceReader } from "./evidence-reader.ts";

const vendors: Readonly<Record<string, Npu["vendor"]>> = { "1022": "amd", "8086": "intel" };

/** AMD's have a class that other chips share: these are the device ids (firmware directories of the amdxdna driver). */
const amdDevices = ["1502", "17f0"];

/** The NPU, with driver or without; AMD's where there are several, since an engine supports it. */
export async function probeNpu(
  machine: Machine,
  pci: readonly PciDevice[],
  devices: readonly DeviceNode[],
  problems: EvidenceReader,
): Promise<Npu | null> {
  const nodes = new Map<string, string>();
  for (const name of await problems.names("/sys/class/accel")) {
    const address = addressIn((await problems.target(`/sys/class/accel/${name}`)) ?? "");
    if (address !== undefined) nodes.set(address, `/dev/accel/${name}`);
  }
  const candidates = pci.filter((device) => nodes.has(device.address) || isNpu(device));
  const found = candidates.find(({ vendor }) => vendor === "1022") ?? candidates[0];
  if (found === undefined) return withoutSysfs(devices);
  const reader = new EvidenceReader(machine);
  const { vendor, device, driver, directory } = found;
  reader.note(directory, `${vendor}:${device}, ${driver === undefined ? "no driver bound" : `driver ${driver}`}`);
  const path = nodes.get(found.address);
  const isThere = path !== undefined && devices.some((each) => each.path === path);
  if (path === undefined) reader.note("/sys/class/accel", "has no node for it: its driver is not loaded, or too old");
  else if (!isThere) reader.note(path, "the kernel has it, /dev has not: as in a container without the device");
  return {
    vendor: vendors[vendor] ?? "other",
    vendor_id: vendor,
    device_id: device,
    name: (await pciName(machine, vendor, device)) ?? null,
    driver: driver ?? null,
    device: isThere ? path : null,
    evidence: reader.evidence,
  };
}

/** Base class 0x12: processing accelerators. */
function isNpu({ class: kind, vendor, device }: PciDevice): boolean {
  return vendor === "1022" ? amdDevices.includes(device) : kind.startsWith("0x12");
}

/** A device file that was passed to a container whose /sys does not show the device. */
function withoutSysfs(devices: readonly DeviceNode[]): Npu | null {
  const node = devices.find(({ path }) => path.startsWith("/dev/accel/"));
  if (node === undefined) return null;
  const evidence = [{ source: node.path, says: "exists; /sys does not describe it" }];
  return { vendor: "other", vendor_id: null, device_id: null, name: null, driver: null, device: node.path, evidence };
}
