import type { SlotSpec } from "../../api/slot.ts";
import { encodeRequest, exactValue } from "../protocols/json.ts";
import { isRecord } from "../../lib/record.ts";

/**
 * The body with a slot's `request` rules applied: fields removed, then set unless the client sent them; a trailing `!`
 * forces. The same buffer when there are no rules, or when it is no JSON object: the engine then reports the error.
 */
export function applyRules(body: Buffer, { set, strip }: SlotSpec["request"]): Buffer {
  const settings = Object.entries(set);
  if (settings.length === 0 && strip.length === 0) return body;
  const fields = objectOf(body);
  if (fields === undefined) return body;
  const forced = settings.flatMap(([key]) => (key.endsWith("!") ? [key.slice(0, -1)] : []));
  const taken = new Set([...strip, ...forced].map(folded));
  // In letters of another case too: some engines fold case.
  for (const name of fields.keys()) if (taken.has(folded(name)) && !forced.includes(name)) fields.delete(name);
  for (const [key, value] of settings) {
    const isForced = key.endsWith("!");
    const name = isForced ? key.slice(0, -1) : key;
    if (isForced || !fields.has(name)) fields.set(name, value);
  }
  return encodeRequest(Object.fromEntries(fields));
}

function folded(name: string): string {
  return name.toUpperCase().toLowerCase();
}

function objectOf(body: Buffer): Map<string, unknown> | undefined {
  const parsed = exactValue(body);
  return isRecord(parsed) ? new Map(Object.entries(parsed)) : undefined;
}
