import type { SlotDetail, SlotView } from "../../src/api/management/views.ts";

/** Something that happened to a slot, which a chart marks. */
export interface Mark {
  /** Seconds since the epoch. */
  readonly at: number;
  readonly slot: string;
  readonly what: "loaded" | "restarted" | "failed";
}

const loaded: readonly string[] = ["ready", "serving", "idle"];

/** The loads, restarts and failures of a slot since a time in seconds since the epoch, the newest first. */
export function marksOf(
  { name: slot, transitions }: Pick<SlotDetail, "name" | "transitions">,
  since: number,
): readonly Mark[] {
  const marks = transitions.flatMap(({ at, from, to }): Mark[] => {
    if (to === "error") return [{ at: secondsOf(at), slot, what: "failed" }];
    if (loaded.includes(from) && to === "starting") return [{ at: secondsOf(at), slot, what: "restarted" }];
    return to === "ready" && !loaded.includes(from) ? [{ at: secondsOf(at), slot, what: "loaded" }] : [];
  });
  return newestFirst(marks, since);
}

/** The last load of each slot that is loaded, and each slot's last failure, as far as a list of slots says it. */
export function lastMarks(
  slots: readonly Pick<SlotView, "name" | "conditions" | "last_error">[],
  since: number,
): readonly Mark[] {
  const marks = slots.flatMap(({ name: slot, conditions, last_error: failure }): Mark[] => {
    const available = conditions.find(({ type }) => type === "Available");
    return [
      ...(available?.status === "True"
        ? [{ at: secondsOf(available.lastTransitionTime), slot, what: "loaded" } as const]
        : []),
      ...(failure === null ? [] : [{ at: secondsOf(failure.time), slot, what: "failed" } as const]),
    ];
  });
  return newestFirst(marks, since);
}

const secondsOf = (time: string): number => Date.parse(time) / 1000;

const newestFirst = (marks: readonly Mark[], since: number): readonly Mark[] =>
  marks.filter(({ at }) => at >= since).toSorted((one, other) => other.at - one.at);

interface ToldMark extends Mark {
  /** How often it has happened. */
  readonly times: number;
}

/** The newest mark of each kind and slot: a slot that fails again and again is told once. */
export function folded(marks: readonly Mark[]): readonly ToldMark[] {
  return [...Map.groupBy(marks, ({ slot, what }) => `${what} ${slot}`).values()].flatMap((same) => {
    const [newest] = same;
    return newest === undefined ? [] : [{ ...newest, times: same.length }];
  });
}
