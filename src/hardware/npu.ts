import type { DeviceNode, Npu } from "../api/hardware.ts";
import type { Machine } from "./machine.ts";
import { addressIn, pciName, type PciDevice } from "./pci.ts";
import { Witness } from "./witness.ts";

const vendors: Readonly<Record<string, Npu["vendor"]>> = { "1022": "amd", "8086": "intel" };

/** AMD's have a class that other chips share: these are its devices (firmware directories of the amdxdna driver). */
const amdDevices = ["1502", "17f0"];

/** The NPU, with driver or without; AMD's where there are several, for an engine here runs on it. */
export async function lookAtNpu(
  machine: Machine,
  pci: readonly PciDevice[],
  devices: readonly DeviceNode[],
  problems: Witness,
): Promise<Npu | null> {
  const nodes = new Map<string, string>();
  for (const name of await problems.names("/sys/class/accel")) {
    const address = addressIn((await problems.target(`/sys/class/accel/${name}`)) ?? "");
    if (address !== undefined) nodes.set(address, `/dev/accel/${name}`);
  }
  const candidates = pci.filter((device) => nodes.has(device.address) || isNpu(device));
  const found = candidates.find(({ vendor }) => vendor === "1022") ?? candidates[0];
  if (found === undefined) return withoutSysfs(devices);
  const witness = new Witness(machine);
  const { vendor, device, driver, directory } = found;
  witness.note(directory, `${vendor}:${device}, ${driver === undefined ? "no driver bound" : `driver ${driver}`}`);
  const path = nodes.get(found.address);
  const isThere = path !== undefined && devices.some((each) => each.path === path);
  if (path === undefined) witness.note("/sys/class/accel", "has no node for it: its driver is not loaded, or too old");
  else if (!isThere) witness.note(path, "the kernel has it, /dev has not: as in a container that was not given it");
  return {
    vendor: vendors[vendor] ?? "other",
    vendor_id: vendor,
    device_id: device,
    name: (await pciName(machine, vendor, device)) ?? null,
    driver: driver ?? null,
    device: isThere ? path : null,
    evidence: witness.evidence,
  };
}

/** Base class 0x12: processing accelerators. */
function isNpu({ class: kind, vendor, device }: PciDevice): boolean {
  return vendor === "1022" ? amdDevices.includes(device) : kind.startsWith("0x12");
}

/** A device file that was handed to a container whose /sys says nothing of it. */
function withoutSysfs(devices: readonly DeviceNode[]): Npu | null {
  const node = devices.find(({ path }) => path.startsWith("/dev/accel/"));
  if (node === undefined) return null;
  const evidence = [{ source: node.path, says: "is there; /sys says nothing of what it is" }];
  return { vendor: "other", vendor_id: null, device_id: null, name: null, driver: null, device: node.path, evidence };
}
