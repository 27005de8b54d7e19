import type { SlotSpec } from "../../api/slot.ts";
import type { Dependencies } from "../dependencies.ts";
import { doesNotFit, noMemory } from "../plan/facts.ts";
import { isReplacing, needKey } from "../plan/growth.ts";
import { at, type SlotInput } from "../plan/input.ts";
import type { FitResult } from "./fit.ts";

/** A slot that had its place and lacked memory leaves the place to others for this time. */
const withoutMemoryMs = 30_000;

/**
 * Whether a lack of free memory refuses a start: while other slots of its group have the places, it is not free yet. A
 * slot that lacked memory when it had its place waits for a while before it asks for a place again.
 */
function hasPlace(
  slot: Pick<SlotInput, "observed" | "before" | "specHash" | "now" | "workloads">,
  { group }: Pick<SlotInput, "group">,
): boolean {
  const { observed, before, specHash, now } = slot;
  if (group !== undefined && isReplacing(slot)) return group.wanted?.grant.state === "granted";
  if (group === undefined || group.grant.state === "granted" || observed.length > 0) return true;
  if (before?.specHash !== specHash || before.status.state !== "error") return false;
  const { lastError, transitions } = before.status;
  const failedAt = at(transitions.findLast(({ to }) => to === "error")?.at);
  const isRecent = Math.abs(now.getTime() - failedAt) < withoutMemoryMs;
  return lastError?.reason === noMemory && isRecent;
}

/** The slot's needs, and why it must not be started. Where unloading other slots cannot help, the slot is refused at once. */
export function fitInGroup(
  fit: FitResult,
  slot: Pick<SlotInput, "observed" | "before" | "specHash" | "now" | "workloads">,
  group: Pick<SlotInput, "group">,
): FitResult {
  if (fit.refusal === undefined || fit.refusal.reason === doesNotFit || hasPlace(slot, group)) return fit;
  const { refusal: _later, ...known } = fit;
  return known;
}

/** Until its group is reconciled a slot that does not run waits. */
export function groupOf(
  { groups }: Pick<Dependencies, "groups">,
  name: string,
  spec: SlotSpec | undefined,
): Pick<SlotInput, "group"> {
  const group = spec?.group;
  if (group === undefined) return {};
  const lentUntil = groups.lentUntil(group);
  const lent = lentUntil === undefined ? {} : { lentUntil };
  const next = groups.wantedBy(name);
  const wanted = next === undefined ? {} : { wanted: { key: needKey(next), grant: groups.wantedGrantOf(group, name) } };
  return { group: { name: group, grant: groups.grantOf(group, name), ...wanted, ...lent } };
}
