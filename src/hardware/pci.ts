import type { Machine } from "./machine.ts";
import type { Witness } from "./witness.ts";

/** A device on the PCI bus, by what sysfs tells of it; ids as four hexadecimal digits. */
export interface PciDevice {
  /** E.g. `0000:03:00.0`. */
  readonly address: string;
  /** E.g. `0x030000`: the first byte is the base class. */
  readonly class: string;
  readonly vendor: string;
  readonly device: string;
  /** Undefined: no driver is bound to it. */
  readonly driver: string | undefined;
  readonly directory: string;
}

const bus = "/sys/bus/pci/devices";

/** Every device of the bus (https://docs.kernel.org/PCI/sysfs-pci.html); none where there is no such bus. */
export async function pciDevices(witness: Witness): Promise<readonly PciDevice[]> {
  const found: PciDevice[] = [];
  for (const address of await witness.names(bus)) {
    const directory = `${bus}/${address}`;
    const [kind, vendor, device] = [
      await witness.text(`${directory}/class`),
      await witness.text(`${directory}/vendor`),
      await witness.text(`${directory}/device`),
    ];
    if (kind === undefined || vendor === undefined || device === undefined) continue;
    const driver = await witness.linked(`${directory}/driver`);
    found.push({ address, class: kind, vendor: hex(vendor), device: hex(device), driver, directory });
  }
  return found;
}

/** The PCI device that a node of sysfs belongs to; undefined where it is on another bus. */
export function addressIn(path: string): string | undefined {
  return path.split("/").findLast((part) => /^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/.test(part));
}

/** `0x1002` as `1002`. */
export function hex(id: string): string {
  return id.replace(/^0x/, "").toLowerCase();
}

/** Lists of names that distributions install (https://pci-ids.ucw.cz). */
const lists = ["/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids"];

/** What a device is called, where a list of names is installed. */
export async function pciName(machine: Machine, vendor: string, device: string): Promise<string | undefined> {
  for (const path of lists) {
    const text = await machine.text(path).catch(() => undefined);
    const start = text === undefined ? -1 : `\n${text}`.indexOf(`\n${vendor}  `);
    if (text === undefined || start < 0) continue;
    // A vendor's devices follow it, each after a tab, until the next line that begins with neither tab nor comment.
    for (const line of text.slice(start).split("\n").slice(1)) {
      if (line.startsWith(`\t${device}  `)) return line.slice(device.length + 3).trim();
      if (line !== "" && !line.startsWith("\t") && !line.startsWith("#")) break;
    }
  }
  return undefined;
}
