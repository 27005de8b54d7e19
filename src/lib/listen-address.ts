import { BlockList, isIPv6 } from "node:net";

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/**
 * Whether only this machine can reach a listener on `host`. A name other than `localhost` counts as reachable from
 * outside.
 */
export function isLoopback(host: string): boolean {
  return host === "localhost" || loopback.check(host, isIPv6(host) ? "ipv6" : "ipv4");
}

/** The URL at which this machine itself reaches a listener on `host`. */
export function localUrl(host: string, port: number): string {
  const address = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${authority(address, port)}`;
}

/** Host and port in a URL's form. */
export function authority(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
