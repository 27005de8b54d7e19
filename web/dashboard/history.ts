import { computed, signal } from "@preact/signals";
import type { TrafficView } from "../../src/api/management/traffic-view.ts";
import { call } from "../shared/api.ts";
import { now } from "../shared/clock.ts";
import { joined, withQuiet } from "./traffic-steps.ts";

interface Heard {
  readonly view: TrafficView;
  /** When the last step came, by this browser's clock; undefined: no events come, so nothing is known of the time since. */
  readonly at?: number;
}

const heard = signal<Heard | undefined>(undefined);

/** The traffic of the last fifteen minutes until now; undefined until some was read. */
export const history = computed(() => {
  if (heard.value === undefined) return undefined;
  const { view, at } = heard.value;
  return at === undefined ? view : withQuiet(view, now() - at);
});

/** Reads the steps that were before this page, or while it heard nothing. */
export async function readHistory(signal: AbortSignal): Promise<void> {
  const past = await call("GET /api/traffic", { query: { minutes: 15 }, signal });
  // Steps whose events came sooner than this answer stay.
  hear(heard.value === undefined ? past : joined(past, heard.value.view));
}

/** Adds a step that an event brings. */
export function addStep(step: TrafficView): void {
  hear(heard.value === undefined ? step : joined(heard.value.view, step));
}

/** The events have ended. */
export function endHistory(): void {
  if (heard.value !== undefined) heard.value = { view: heard.value.view };
}

function hear(view: TrafficView): void {
  heard.value = { view, at: Date.now() };
}
