import type { Demand } from "../api/status.ts";
import type { DemandStore } from "./store.ts";
export interface DemandWriter extends AsyncDisposable {
  write(demand: Demand): Promise<void>;
}
export function openDemandStore(stateDir: string, options: { now?: () => Date } = {}): Promise<DemandStore> {
  throw new Error(`not yet: ${stateDir} ${options.now?.().toISOString()}`);
}
export function openDemandWriter(stateDir: string, gateway: string): Promise<DemandWriter> {
  throw new Error(`not yet: ${stateDir} ${gateway}`);
}
