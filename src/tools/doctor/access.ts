import type { Config } from "../../api/config.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { isLoopback } from "../../lib/listen-address.ts";
import { fail, ok, warn, type Finding } from "./finding.ts";

/** Findings about the clients that can reach the API, and the checks that they must pass. */
export async function accessFindings(config: Config, isPasswordInFile: boolean): Promise<Finding[]> {
  const { authEnabled, host, port, hostname, tlsEmail } = config;
  const findings: Finding[] = [];
  if (isPasswordInFile)
    findings.push(
      warn(
        "proxy",
        "berth.toml holds the administrator's password",
        "`berth proxy render` keeps a hash: then remove it",
      ),
    );
  if (!authEnabled) {
    const next = "SVC_HOST=127.0.0.1 keeps it to this machine; SVC_AUTH_ENABLED=1 asks for tokens (docs/edge.md)";
    const text = `authentication is off: everybody who reaches ${host}:${port} may do everything`;
    return [
      ...findings,
      isLoopback(host) ? ok("access", `for this machine alone, at ${host}:${port}`) : warn("access", text, next),
    ];
  }
  findings.push(
    isLoopback(host)
      ? ok("access", `by token, or through a proxy to ${host}:${port}`)
      : warn(
          "access",
          `tokens travel unencrypted to ${host}:${port}`,
          "leave SVC_HOST unset and put a proxy before it",
        ),
  );
  // In a cluster an Ingress is the proxy.
  if (config.store === "kubernetes") return findings;
  const { isPrivateName } = await import("../proxy/caddyfile.ts");
  if (!isPrivateName(hostname) && tlsEmail === undefined) {
    findings.push(
      fail("proxy", `${hostname} is a public name, and SVC_TLS_EMAIL is not set`, "set it to an address that is read"),
    );
    return findings;
  }
  const { openAdmin } = await import("../../store/open-admin.ts");
  const admin = await openAdmin(config)
    .read()
    .catch((error: unknown) => errorCode(error) ?? errorMessage(error));
  if (admin === undefined) {
    const next = "SVC_ADMIN_USER=… SVC_ADMIN_PASSWORD=… berth proxy render --file …, where browsers are to log in";
    findings.push(warn("proxy", "there is no administrator: no proxy has been rendered", next));
  } else if (typeof admin === "string")
    findings.push(
      fail("proxy", `auth/admin.json cannot be used (${admin})`, "render it anew with SVC_ADMIN_PASSWORD set"),
    );
  else findings.push(ok("proxy", `${hostname} for ${admin.user}; \`berth proxy check\` goes through it`));
  return findings;
}
