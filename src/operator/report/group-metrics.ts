import type { GroupStatus } from "../../api/group-status.ts";
import { groupMetrics as families } from "../../api/metrics/groups.ts";
import type { ValueFamily } from "../../lib/metrics/families.ts";
import type { HistogramFamily } from "../../lib/metrics/histogram.ts";
import type { MetricPage } from "../../lib/metrics/page.ts";
import { labelText, type Sample } from "../../lib/metrics/spec.ts";
import { leavingCauses, type LeavingCause } from "../plan/grant.ts";

/** A budget of a number of slots; every other resource is counted in bytes. */
const slotsResource = "slots";

/** Metrics of groups, on the operator's page. */
export class GroupMetrics {
  readonly #grants: ValueFamily<"group" | "slot">;
  readonly #waits: HistogramFamily<"group">;
  readonly #evictions: ValueFamily<"group" | "slot" | "reason">;
  readonly #waiting: ValueFamily<"group">;
  readonly #lent: ValueFamily<"group">;
  /** Since when the slot of each group has waited that waits longest, milliseconds since the epoch; undefined: none does. */
  readonly #waitingSince = new Map<string, number | undefined>();
  readonly #budget: ValueFamily<"group" | "device">;
  readonly #used: ValueFamily<"group" | "device">;
  readonly #slotBudget: ValueFamily<"group">;
  readonly #slotsUsed: ValueFamily<"group">;

  readonly #now: () => number;

  /** `now`: milliseconds since the epoch. */
  constructor(page: MetricPage, now: () => number = Date.now) {
    this.#now = now;
    this.#grants = page.values(families.grants);
    this.#waits = page.histogram(families.waits);
    this.#evictions = page.values(families.evictions);
    this.#waiting = page.values(families.waiting);
    page.read(families.longestWait, () => this.#longestWaits());
    this.#lent = page.values(families.lent);
    this.#budget = page.values(families.budgetBytes);
    this.#used = page.values(families.usedBytes);
    this.#slotBudget = page.values(families.budgetSlots);
    this.#slotsUsed = page.values(families.usedSlots);
  }

  granted(group: string, slot: string, waitedSeconds: number): void {
    this.#grants.add({ group, slot });
    if (waitedSeconds > 0) this.#waits.series({ group }).observe(waitedSeconds);
  }

  evicted(group: string, slot: string, reason: LeavingCause): void {
    this.#evictions.add({ group, slot, reason });
  }

  /** Shows the present status. `before`: the last one; `after` is undefined where the group is gone. */
  published(after: GroupStatus | undefined, before: GroupStatus | undefined): void {
    if (before !== undefined) this.#remove(before, after);
    if (after === undefined) return;
    const group = after.name;
    const waiting = after.members.filter(({ state }) => state === "waiting");
    this.#waiting.set({ group }, waiting.length);
    const since = Math.min(...waiting.map((member) => Date.parse(member.since)));
    this.#waitingSince.set(group, waiting.length === 0 ? undefined : since);
    this.#lent.set({ group }, after.lentUntil === undefined ? 0 : 1);
    for (const { resource, total, used } of after.budget) {
      if (resource === slotsResource) {
        this.#slotBudget.set({ group }, total);
        this.#slotsUsed.set({ group }, used);
      } else {
        this.#budget.set({ group, device: resource }, total);
        this.#used.set({ group, device: resource }, used);
      }
    }
  }

  *#longestWaits(): Iterable<Sample> {
    for (const [group, since] of this.#waitingSince)
      yield [
        labelText(families.longestWait.labels, { group }),
        since === undefined ? 0 : Math.max(0, this.#now() - since) / 1000,
      ];
  }

  #remove({ name: group, budget, members }: GroupStatus, after: GroupStatus | undefined): void {
    this.#slotBudget.remove({ group });
    this.#slotsUsed.remove({ group });
    for (const { resource: device } of budget) {
      this.#budget.remove({ group, device });
      this.#used.remove({ group, device });
    }
    if (after === undefined) {
      this.#waiting.remove({ group });
      this.#waitingSince.delete(group);
      this.#lent.remove({ group });
      this.#waits.remove({ group });
    }
    const left = new Set(after?.members.map(({ slot }) => slot));
    for (const { slot } of members) {
      if (left.has(slot)) continue;
      this.#grants.remove({ group, slot });
      for (const reason of leavingCauses) this.#evictions.remove({ group, slot, reason });
    }
  }
}
