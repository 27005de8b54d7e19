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

/**
 * The name of the abstract socket at which the gateway of that port, state directory and role reports. `directory`: the
 * state directory's device and inode, which are the same for every path to it.
 */
export function gatewayName(port: number, directory: { dev: number; ino: number }, role: GatewayRole): string {
  return `berth-${role}-${port}-${directory.dev}-${directory.ino}`;
}
