import { stat } from "node:fs/promises";
import type { Config } from "../../api/config.ts";
import { gatewayName, type GatewayReport, type GatewayRole } from "../../api/gateway-report.ts";

/** A gateway that may share its ports with the other one of the same state directory. */
export interface Sharing {
  readonly role: GatewayRole;
  /** The state directory's device and inode. */
  readonly directory: { readonly dev: number; readonly ino: number };
  readonly report: () => GatewayReport;
}

/** How this gateway shares its ports; undefined in a cluster, where each gateway has ports of its own. */
export async function sharingOf(
  { store, stateDir }: Pick<Config, "store" | "stateDir">,
  gateway: { readonly role: GatewayRole | undefined; readonly version: string; readonly isReady: () => boolean },
): Promise<Sharing | undefined> {
  if (store !== "files") return undefined;
  const { role = "gateway", version, isReady } = gateway;
  const { dev, ino } = await stat(stateDir);
  return { role, directory: { dev, ino }, report: () => ({ pid: process.pid, version, isReady: isReady() }) };
}

/** The name at which this gateway reports for the port. */
export function ownName(port: number, { directory, role }: Sharing): string {
  return gatewayName(port, directory, role);
}

/** The name at which the other gateway of the state directory reports for the port. */
export function otherName(port: number, { directory, role }: Sharing): string {
  return gatewayName(port, directory, role === "gateway" ? "standby" : "gateway");
}
