import { join } from "node:path";
import type { Config } from "../../api/config.ts";
import {
  gatewayReportFile,
  gatewayReportSchema,
  type GatewayReport,
  type GatewayRole,
} from "../../api/gateway-report.ts";
import { knownPart } from "../../api/known-part.ts";
import type { SlotState } from "../../api/states.ts";
import { publishedSlotSchema } from "../../api/status.ts";
import { announced } from "../../lib/announcement.ts";
import { parseJson } from "../../lib/json.ts";
import { localUrl } from "../../lib/listen-address.ts";
import { filesIn } from "../install/state-files.ts";

/** How the services of an installation are, as an update has to know it. */
export interface Health {
  /** The report of the gateway of that role; undefined where none runs. */
  gateway(role: GatewayRole): Promise<GatewayReport | undefined>;
  /** The version of the operator that leads and is ready; undefined without one. */
  operator(): Promise<string | undefined>;
  /** The published state of each slot. */
  slots(): Promise<ReadonlyMap<string, SlotState>>;
  /** The number of the state's format; 1 where none is written down. */
  stateFormat(): Promise<number>;
}

const answerMs = 5000;

/** The services with these settings on this machine. */
export function healthOf(config: Config): Health {
  const readFormat = async () => {
    const { openStore } = await import("../../store/open.ts");
    return await openStore(config).format();
  };
  return {
    async gateway(role) {
      const file = join(config.stateDir, gatewayReportFile(config.port, role));
      return gatewayReportSchema.safeParse(announced(file)).data;
    },
    async operator() {
      if (config.operatorPort === 0) return (await readFormat())?.version;
      const url = `${localUrl(config.operatorHost, config.operatorPort)}/readyz`;
      const answer = await fetch(url, { signal: AbortSignal.timeout(answerMs) }).catch(() => undefined);
      const text = await answer?.text().catch(() => "");
      if (answer?.ok !== true || text?.includes("standby") === true) return undefined;
      return (await readFormat())?.version;
    },
    async slots() {
      const states = new Map<string, SlotState>();
      for (const text of (await filesIn(join(config.stateDir, "slots"))) ?? []) {
        const slot = knownPart(publishedSlotSchema, parseJson(text));
        if (slot !== undefined) states.set(slot.name, slot.status.state);
      }
      return states;
    },
    stateFormat: async () => (await readFormat())?.format ?? 1,
  };
}
