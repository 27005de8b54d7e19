import { z } from "zod";

/**
 * A gateway of a state directory listens as one of these: `standby` takes the requests while the other is replaced by
 * its next version (docs/adr/0043-handover.md).
 */
export type GatewayRole = "gateway" | "standby";

/** The report of a running gateway to a process of its machine. */
export const gatewayReportSchema = z.object({
  pid: z.int(),
  version: z.string(),
  /** The gateway serves requests, and does not stop. */
  isReady: z.boolean(),
});

export type GatewayReport = z.output<typeof gatewayReportSchema>;

/** The file, below the state directory, in which the gateway of that port and role keeps its report. */
export function gatewayReportFile(port: number, role: GatewayRole): string {
  return `gateways/${role}-${port}.json`;
}
