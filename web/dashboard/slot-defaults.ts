import type { SlotDetail } from "../../src/api/management/views.ts";

/** What a field that an older server does not send is taken for. */
const absent = {
  state: "offline",
  model: null,
  model_origin: "spec",
  in_flight: 0,
  queued: 0,
  held: 0,
  conditions: [],
  processes: [],
  aliases: [],
  capabilities: [],
  decisions: {},
  enabled: true,
  generation: 0,
  restarts: 0,
  file: null,
  last_error: null,
  next_retry_at: null,
  recent_failures: null,
  transitions: [],
} as const satisfies Partial<SlotDetail>;

/** A slot as the server sent it, with what an older server leaves out. */
export function withDefaults<T extends object>(slot: T): T {
  return { ...absent, ...slot };
}
