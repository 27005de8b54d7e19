import { signal } from "@preact/signals";
import type { TrafficView } from "../../src/api/management/traffic-view.ts";
import { call } from "../shared/api.ts";
import { joined } from "./traffic-steps.ts";

/** The traffic of the last fifteen minutes; undefined until it was read. */
export const history = signal<TrafficView | undefined>(undefined);

/** Reads what was before this page. */
export async function readHistory(signal: AbortSignal): Promise<void> {
  history.value = await call<TrafficView>("/api/traffic?minutes=15", { signal });
}

/** Adds a step that an event brings. */
export function addStep(step: TrafficView): void {
  if (history.value !== undefined) history.value = joined(history.value, step);
}
