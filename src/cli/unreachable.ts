import { CommandError, notBerth } from "./client.ts";
import { Unresponsive } from "./idle-timeout.ts";

/** A failed request as an error for a person: why the service at this address has not answered. */
export function unreachable(error: Error, server: string, idleTimeoutMs: number): CommandError {
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (/CERT|SELF_SIGNED|ALTNAME/.test(code)) {
    return new CommandError(
      "unreachable",
      `the certificate of ${server} is not trusted (${code})`,
      "name a file with the root certificate of its edge proxy in NODE_EXTRA_CA_CERTS",
    );
  }
  if (code === "EPROTO" || code.startsWith("ERR_SSL_")) return notBerth(`the program at ${server} does not speak TLS`);
  if (code.startsWith("HPE_")) return notBerth(`the program at ${server} does not speak HTTP`);
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return new CommandError(
      "unreachable",
      `no machine is known by the name in ${server}`,
      "check --server and SVC_URL; a name that ends in .local needs mDNS, or a line in /etc/hosts",
    );
  }
  if (error instanceof Unresponsive) {
    return new CommandError(
      "unreachable",
      `${server} accepts connections, and answers nothing within ${(2 * idleTimeoutMs) / 1000} s`,
      "it hangs, or is no Berth: see its log, or name another with --server",
    );
  }
  return new CommandError(
    "unreachable",
    `nothing answers at ${server}`,
    "start it with `berth up`, or name another with --server",
  );
}
