/** A window that is shown, as it tells the browser's other windows of this site. */
export interface ShownWindow {
  readonly id: string;
  readonly hasLog: boolean;
  /** When a person last turned to it, in milliseconds of the browser's clock. */
  readonly usedAt: number;
}

/** Which streams a window may have open. */
export interface Share {
  readonly events: boolean;
  readonly log: boolean;
}

/** A browser has six connections to one host without HTTP/2, and a click needs one. */
const mostStreams = 5;

/** Each window has its events, then its log, as far as that goes: the window that a person turned to last comes first. */
export function shareOf(own: ShownWindow, others: readonly ShownWindow[]): Share {
  const order = [own, ...others].toSorted(
    (one, other) => other.usedAt - one.usedAt || one.id.localeCompare(other.id, "en"),
  );
  const events = order.slice(0, mostStreams);
  const logs = events.filter(({ hasLog }) => hasLog).slice(0, mostStreams - events.length);
  return { events: events.includes(own), log: logs.includes(own) };
}
