import { lookup as systemLookup, type LookupAddress } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { networkInterfaces } from "node:os";
import { AddressSet, canonicalAddress } from "../auth/addresses.ts";

/** This machine, its neighbours on the cable, and what clouds tell a machine of itself, keys included. */
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
/** IPv4 within IPv6: a translator or tunnel would lead there. */
const wrapped = /^(?:64:ff9b::|2002:)/i;

/** What to do about a provider that leads there. */
export const innerAddressNext =
  "it was written over the API while authentication was off; write the manifest by hand, switch authentication on, or start with SVC_API_EXEC=1";

/** A name leads to this machine, or to an address that only this machine may ask. */
export class InnerAddress extends Error {
  override readonly name = "InnerAddress";
  readonly code = "EINNER";
}

/** Whether an address is this machine's own, link-local, or one at which clouds give out metadata. */
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

/** Resolves a name for a connection, and refuses it with InnerAddress where any of its addresses leads inwards. */
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
