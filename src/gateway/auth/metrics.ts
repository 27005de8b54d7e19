import { Counter, type Registry } from "prom-client";
import type { AuthCode } from "./authenticator.ts";

/** `berth_auth_refusals_total{code}`; all codes are there from the start, so that an alert sees the first one. */
export function refusalCounter(registry: Registry): (code: AuthCode) => void {
  const counter = new Counter({
    name: "berth_auth_refusals_total",
    help: "Requests that authentication has refused, by error code",
    labelNames: ["code"],
    registers: [registry],
  });
  // Looked up once: whoever floods us with wrong tokens is to cost little.
  const known = new Map(
    ["auth.required", "auth.invalid", "auth.forbidden", "auth.throttled"].map((code) => [code, counter.labels(code)]),
  );
  for (const child of known.values()) child.inc(0);
  return (code) => (known.get(code) ?? counter.labels(code)).inc();
}
