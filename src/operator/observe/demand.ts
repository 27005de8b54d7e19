import { processName } from "../../api/process-ref.ts";
import type { Demand } from "../../api/status.ts";
import { ownEntry } from "../../lib/record.ts";
import { isFromAhead, type SlotDemand } from "../plan/input.ts";

/** Demand for an earlier slot of that name is no demand for this one, which exists since `since`. */
export function demandOf(gateways: readonly Demand[], name: string, now: Date, since: Date | undefined): SlotDemand {
  let held = 0;
  let inFlight = 0;
  let seenRevision = Infinity;
  const byProcess: Record<string, { readonly inFlight: number; readonly lastByteAt: Date | undefined }> = {};
  const byRef = new Map<string, { held: number; inFlight: number; waitingSince: Date | undefined }>();
  let lastRequestAt: Date | undefined;
  let lastByteAt: Date | undefined;
  for (const gateway of gateways) {
    const slot = ownEntry(gateway.slots, name);
    seenRevision = Math.min(seenRevision, slot?.seenRevision ?? 0);
    if (slot === undefined) continue;
    held += slot.held;
    inFlight += slot.inFlight;
    lastRequestAt = later(lastRequestAt, slot.lastRequestAt);
    lastByteAt = later(lastByteAt, slot.lastByteAt);
    for (const { ref, ...own } of slot.refs ?? []) {
      const known = byRef.get(ref) ?? { held: 0, inFlight: 0, waitingSince: undefined };
      byRef.set(ref, {
        held: known.held + own.held,
        inFlight: known.inFlight + own.inFlight,
        waitingSince: earlier(known.waitingSince, own.waitingSince),
      });
    }
    for (const process of slot.endpoints) {
      const known = byProcess[processName(process)];
      byProcess[processName(process)] = {
        inFlight: (known?.inFlight ?? 0) + process.inFlight,
        lastByteAt: later(known?.lastByteAt, process.lastByteAt),
      };
    }
  }
  if (lastRequestAt !== undefined && since !== undefined && lastRequestAt < since) lastRequestAt = undefined;
  // Status has it, by the present setting of the clock.
  if (lastRequestAt !== undefined && isFromAhead(lastRequestAt.getTime(), now)) lastRequestAt = undefined;
  return { held, inFlight, lastRequestAt, lastByteAt, seenRevision, byProcess, byRef };
}

function earlier(known: Date | undefined, time: string | undefined): Date | undefined {
  if (time === undefined) return known;
  const date = new Date(time);
  return known === undefined || date < known ? date : known;
}

function later(known: Date | undefined, time: string | undefined): Date | undefined {
  if (time === undefined) return known;
  const date = new Date(time);
  return known === undefined || date > known ? date : known;
}
