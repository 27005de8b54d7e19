import type { Machine } from "./machine.ts";
import type { EvidenceReader } from "./evidence-reader.ts";

/** A device on the PCI bus, as sysfs describes it; ids as four hexadecimal digits. */
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

/** Every device of the bus (https://docs.kernel.org/PCI/sysfs-pci.html); none without such a bus. */
export async function pciDevices(reader: EvidenceReader): Promise<readonly PciDevice[]> {
  const found: PciDevice[] = [];
  for (const address of await reader.names(bus)) {
    const directory = `${bus}/${address}`;
    const [kind, vendor, device] = [
      await reader.text(`${directory}/class`),
      await reader.text(`${directory}/vendor`),
      await reader.text(`${directory}/device`),
    ];
    if (kind === undefined || vendor === undefined || device === undefined) continue;
    const driver = await reader.linked(`${directory}/driver`);
    found.push({ address, class: kind, vendor: hex(vendor), device: hex(device), driver, directory });
  }
  return found;
}

/** The PCI device of a sysfs node; undefined for a node on another bus. */
export function addressIn(path: string): string | undefined {
  return path.split("/").findLast((part) => /^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/.test(part));
}

/** `0x1002` as `1002`. */
export function hex(id: string): string {
  return id.replace(/^0x/, "").toLowerCase();
}

/** Lists of names that distributions install (https://pci-ids.ucw.cz). */
const lists = ["/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids"];

/** The name of a device, where a list of names is installed. */
export async function pciName(machine: Machine, vendor: string, device: string): Promise<string | undefined> {
  for (const path of lists) {
    const text = await machine.text(path).catch(() => undefined);
    const start = text === undefined ? -1 : `\n${text}`.indexOf(`\n${vendor}  `);
    if (text === undefined || start < 0) continue;
    // A vendor's devices follow its line, each after a tab, until the next line that begins with neither tab nor
    // comment.
    for (const line of text.slice(start).split("\n").slice(1)) {
      if (line.startsWith(`\t${device}  `)) return line.slice(device.length + 3).trim();
      if (line !== "" && !line.startsWith("\t") && !line.startsWith("#")) break;
    }
  }
  return undefined;
}
