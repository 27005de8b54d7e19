import type { RequestStore } from "./store.ts";
export function openRequestStore(stateDir: string): Promise<RequestStore> {
  throw new Error(`not yet: ${stateDir}`);
}
