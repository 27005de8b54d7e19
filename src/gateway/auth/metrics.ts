import { gatewayMetrics } from "../../api/metrics/gateway.ts";
import type { MetricPage } from "../../lib/metrics/page.ts";
import type { AuthCode } from "./gate.ts";

/** `berth_auth_refusals_total{code}`; all codes exist from the start, so that an alert sees the first one. */
export function refusalCounter(page: MetricPage): (code: AuthCode) => void {
  const counter = page.values(gatewayMetrics.refusals);
  // Looked up once: a flood of wrong tokens must cost little.
  const known = new Map(
    ["auth.required", "auth.invalid", "auth.forbidden", "auth.throttled"].map((code) => [
      code,
      counter.series({ code }),
    ]),
  );
  return (code) => {
    (known.get(code) ?? counter.series({ code })).value += 1;
  };
}
