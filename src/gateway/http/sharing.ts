import { join } from "node:path";
import type { Config } from "../../api/config.ts";
import { gatewayReportFile, type GatewayReport, type GatewayRole } from "../../api/gateway-report.ts";

/** A gateway that may share its ports with the other one of the same state directory. */
export interface Sharing {
  readonly role: GatewayRole;
  readonly stateDir: string;
  readonly report: () => GatewayReport;
}

/** The role and the report by which this gateway shares its ports; undefined in a cluster, where each gateway has its own ports. */
export function sharingOf(
  { store, stateDir }: Pick<Config, "store" | "stateDir">,
  gateway: { readonly role: GatewayRole | undefined; readonly version: string; readonly isReady: () => boolean },
): Sharing | undefined {
  if (store !== "files") return undefined;
  const { role = "gateway", version, isReady } = gateway;
  return { role, stateDir, report: () => ({ pid: process.pid, version, isReady: isReady() }) };
}

/** The file in which this gateway keeps its report for the port. */
export function ownReport(port: number, { stateDir, role }: Sharing): string {
  return join(stateDir, gatewayReportFile(port, role));
}

/** The file of the other gateway of the state directory for the port. */
export function otherReport(port: number, { stateDir, role }: Sharing): string {
  return join(stateDir, gatewayReportFile(port, role === "gateway" ? "standby" : "gateway"));
}
