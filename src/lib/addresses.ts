import { BlockList, isIP, isIPv6 } from "node:net";

/** Addresses and CIDR blocks, as in `SVC_TRUSTED_PROXIES`. */
export class AddressSet {
  readonly #blocks = new BlockList();

  /** Each is an address or a block; the configuration's schema has checked that. */
  constructor(blocks: readonly string[]) {
    for (const block of blocks) {
      const [address = "", bits] = block.split("/");
      const family = isIPv6(address) ? "ipv6" : "ipv4";
      if (bits === undefined) this.#blocks.addAddress(address, family);
      else this.#blocks.addSubnet(address, Number(bits), family);
    }
  }

  /** `address` as `canonicalAddress` gives it. */
  has(address: string): boolean {
    const family = isIP(address);
    return family !== 0 && this.#blocks.check(address, family === 6 ? "ipv6" : "ipv4");
  }
}

/**
 * One spelling per peer: without zone, and an IPv4 address that a dual-stack socket or a URL shows as IPv6 is IPv4 again.
 * Undefined for a text that is no address.
 */
export function canonicalAddress(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const plain = text.split("%", 1)[0] ?? "";
  const [, mapped, high, low] =
    /^::ffff:(?:(\d{1,3}(?:\.\d{1,3}){3})|([\da-f]{1,4}):([\da-f]{1,4}))$/i.exec(plain) ?? [];
  const isHex = high !== undefined && low !== undefined;
  const address = mapped ?? (isHex ? ipv4Of(high, low) : plain.toLowerCase());
  return isIP(address) === 0 ? undefined : address;
}

/** The IPv4 address of these two groups of an IPv6 address. */
function ipv4Of(high: string, low: string): string {
  return [high, low].flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]).join(".");
}

/** The unit of counting: an IPv4 address, or the /64 of one IPv6 customer. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = "", tail] = address.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  // An address that ends in dotted decimals has one part less than groups.
  const dotted = (after.at(-1) ?? before.at(-1) ?? "").includes(".") ? 1 : 0;
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length - dotted;
  const groups = [...before, ...Array.from({ length: Math.max(0, zeros) }, () => "0"), ...after];
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}
