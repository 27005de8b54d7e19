import { errorCode } from "../../lib/error-code.ts";

/** The errors of a machine that cannot connect, in words. Any other error says itself what is wrong. */
const causes: Readonly<Record<string, string>> = {
  ENOTFOUND: "no address is known for its name",
  EAI_AGAIN: "no name server answers",
  ECONNREFUSED: "it refuses the connection",
  ECONNRESET: "the connection was closed at once",
  ENETUNREACH: "no network leads there",
  EHOSTUNREACH: "no network leads there",
  ENETDOWN: "the network is down",
  EADDRNOTAVAIL: "this machine has no address for that network",
  ETIMEDOUT: "it does not answer",
};

/**
 * One line about a server or proxy that cannot be reached, with what to check. Undefined for an error that has another
 * cause, such as a certificate.
 */
export function unreachableText(peer: string, error: unknown): string | undefined {
  const code = errorCode(error) ?? "";
  return Object.hasOwn(causes, code) ? textOf(peer, `${causes[code] ?? ""} (${code})`) : undefined;
}

/** The line about a server that has not accepted a connection in time. */
export function unansweredText(peer: string, limitMs: number): string {
  return textOf(peer, `no connection within ${limitMs / 1000} s`);
}

/** An address that comes from HF_ENDPOINT can be wrong, too. */
export const endpointHint = ", and HF_ENDPOINT";

function textOf(peer: string, cause: string): string {
  return `${peer} cannot be reached: ${cause}; check the network, DNS and the proxy (HTTPS_PROXY)`;
}
