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
  for (const code of ["auth.required", "auth.invalid", "auth.forbidden", "auth.throttled"]) counter.inc({ code }, 0);
  return (code) => counter.inc({ code });
}
