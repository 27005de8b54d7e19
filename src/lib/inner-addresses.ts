import { lookup as systemLookup, type LookupAddress } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { networkInterfaces } from "node:os";
import { AddressSet, canonicalAddress } from "./addresses.ts";

/** This machine, its link-local neighbours, and clouds' metadata, keys included. */
const inner = new AddressSet([
  "0.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "100.100.100.200",
  "168.63.129.16",
  "192.0.0.192",
  "::/128",
  "::1/128",
  "fe80::/10",
  "fd00:ec2::254",
  "fd20:ce::254",
]);
/** IPv4 within IPv6: a translator or tunnel would route to it. */
const wrapped = /^(?:64:ff9b:(?::|1:)|2002:)/i;

/** A name resolves to this machine, or to an address that only this machine may reach. */
export class InnerAddress extends Error {
  override readonly name = "InnerAddress";
  readonly code = "EINNER";
}

/** Whether an address is this machine's own, link-local, or one of clouds' metadata. */
export function isInnerAddress(text: string): boolean {
  const address = canonicalAddress(text);
  if (address === undefined) return false;
  if (wrapped.test(address) || inner.has(address)) return true;
  return Object.values(networkInterfaces()).some((each) => each?.some((own) => own.address === address) === true);
}

/** Whether the host of a URL is such an address, or a name that always means this machine. */
export function isInnerHost(host: string): boolean {
  const name = host
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "")
    .toLowerCase();
  return isIP(name) === 0 ? /^(?:.*\.)?localhost$/.test(name) : isInnerAddress(name);
}

type SystemLookup = (
  name: string,
  options: { all: true; family?: number },
  done: (error: NodeJS.ErrnoException | null, found: readonly LookupAddress[]) => void,
) => void;

/** Resolves a name for a connection, and rejects with InnerAddress where any of its addresses is such an address. */
export function outerLookup(lookup: SystemLookup = systemLookup): LookupFunction {
  return (name, options, done) => {
    const family = options.family === 4 || options.family === 6 ? { family: options.family } : {};
    lookup(name, { all: true, ...family }, (error, found) => {
      const [first] = found ?? [];
      if (error !== null || first === undefined) done(error ?? new Error(`${name} has no address`), "", 0);
      else if (isInnerHost(name) || found.some(({ address }) => isInnerAddress(address)))
        done(new InnerAddress(`${name} leads to this machine or to its metadata`), "", 0);
      else if (options.all === true) done(null, [...found]);
      else done(null, first.address, first.family);
    });
  };
}
