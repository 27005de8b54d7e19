import { gatewayMetrics as families } from "../../api/metrics/gateway.ts";
import { slotStates, type SlotState } from "../../api/states.ts";
import type { MetricPage } from "../../lib/metrics/page.ts";
import type { Sample } from "../../lib/metrics/spec.ts";
import type { Admission } from "../slots/admission.ts";
import type { Traffic } from "../slots/traffic.ts";
import { slotsInOrder, type KnownSlot, type ResolutionIndex } from "../routing/index.ts";

/** Label of requests whose model resolved to no slot: unknown names must not create new series. */
export const noSlot = "none";

export interface SlotReaders {
  readonly traffic: Pick<Traffic, "inFlight" | "stateOf">;
  readonly admission: Pick<Admission, "counts">;
  readonly index: () => ResolutionIndex;
  readonly upstreams: { get(name: string): unknown };
  /** Requests that wait for the cache sync. */
  readonly unresolved: () => number;
}

/** A slot's labels, made once for its name. */
interface SlotLabels {
  readonly own: string;
  readonly states: readonly (readonly [state: SlotState, labels: string])[];
}

/**
 * The families that are read from slots at each scrape. The order of the slots is found once for each index, and labels
 * are made once for each slot: for a thousand slots this took longer than writing the page. `onKnown` is told each slot
 * and provider before the first page that has it.
 */
export function exportSlots(
  page: MetricPage,
  { traffic, admission, index, unresolved }: Omit<SlotReaders, "upstreams">,
  onKnown: (slot: string) => void,
): void {
  let known: readonly (readonly [KnownSlot, SlotLabels])[] = [];
  let knownOf: ResolutionIndex | undefined;
  let made = new Map<string, SlotLabels>();
  const slots = (): typeof known => {
    const present = index();
    if (present === knownOf) return known;
    const before = made;
    made = new Map();
    for (const name of new Set([...present.upstreamRefs.values()].map(({ upstream }) => `upstream ${upstream}`)))
      onKnown(name);
    known = slotsInOrder(present).map((slot) => {
      const labels = before.get(slot.name) ?? labelsOf(slot.name);
      onKnown(slot.name);
      made.set(slot.name, labels);
      return [slot, labels];
    });
    knownOf = present;
    return known;
  };
  page.before(() => {
    slots();
    return Promise.resolve();
  });
  page.read(families.inFlight, function* () {
    for (const [{ name }, { own }] of slots()) yield [own, traffic.inFlight(name)];
  });
  page.read(families.queued, function* () {
    for (const [{ name }, { own }] of slots()) yield [own, admission.counts(name).queued];
  });
  page.read(families.held, function* () {
    for (const [{ name }, { own }] of slots()) yield [own, admission.counts(name).held];
    yield [`slot="${noSlot}"`, unresolved()];
  });
  page.read(families.slotState, function* (): Iterable<Sample> {
    for (const [slot, { states }] of slots()) {
      const present = traffic.stateOf(slot);
      for (const [state, labels] of states) yield [labels, state === present ? 1 : 0];
    }
  });
}

function labelsOf(name: string): SlotLabels {
  const own = `slot="${name}"`;
  return { own, states: slotStates.map((state) => [state, `${own},state="${state}"`]) };
}
