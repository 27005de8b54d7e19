import type { SlotSpec } from "../../api/slot.ts";
import { withFields } from "../../lib/json-fields.ts";
import { requestFields } from "../protocols/json.ts";

/**
 * The body with a slot's `request` rules applied: fields removed, then set unless the client sent them; a trailing `!`
 * forces. Other fields stay as they are written. The same buffer when there are no rules. Throws ApiError
 * `dispatch.invalid_request` for a body that is no JSON object.
 */
export function applyRules(body: Buffer, { set, strip }: SlotSpec["request"]): Buffer {
  const settings = Object.entries(set).map(([key, value]) => {
    const isForced = key.endsWith("!");
    return { name: isForced ? key.slice(0, -1) : key, isForced, value };
  });
  if (settings.length === 0 && strip.length === 0) return body;
  const taken = new Set([...strip, ...settings.filter(({ isForced }) => isForced).map(({ name }) => name)].map(folded));
  // In letters of another case too: some engines fold case.
  const kept = requestFields(body).filter(({ name }) => !taken.has(folded(name)));
  const names = new Set(kept.map(({ name }) => name));
  const added = settings.filter(({ name, isForced }) => isForced || !names.has(name));
  return withFields(body, kept, Object.fromEntries(added.map(({ name, value }) => [name, value])));
}

function folded(name: string): string {
  return name.toUpperCase().toLowerCase();
}
