import type { SlotDetail } from "../../src/api/management/views.ts";

/** Something that happened to a slot, which a chart marks. */
export interface Mark {
  /** Seconds since the epoch. */
  readonly at: number;
  readonly slot: string;
  readonly what: "loaded" | "restarted" | "failed";
}

const loaded: readonly string[] = ["ready", "serving", "idle"];

/** The loads, restarts and failures of slots since a time in seconds since the epoch, the newest first. */
export function marksOf(slots: readonly Pick<SlotDetail, "name" | "transitions">[], since: number): readonly Mark[] {
  return slots
    .flatMap(({ name: slot, transitions }) =>
      transitions.flatMap(({ at: time, from, to }): Mark[] => {
        const at = Date.parse(time) / 1000;
        if (to === "error") return [{ at, slot, what: "failed" }];
        if (loaded.includes(from) && to === "starting") return [{ at, slot, what: "restarted" }];
        return to === "ready" && !loaded.includes(from) ? [{ at, slot, what: "loaded" }] : [];
      }),
    )
    .filter(({ at }) => at >= since)
    .toSorted((one, other) => other.at - one.at);
}

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
