import type { Amounts } from "../../../src/operator/groups/amounts.ts";
import type { GroupRules } from "../../../src/operator/groups/rules.ts";
import type { Member } from "../../../src/operator/groups/member.ts";

/** The budget of a group called gpu: so many slots at once. */
export const slots = (count: number): Pick<GroupRules, "group" | "capacity"> => ({
  group: "gpu",
  capacity: new Map([["slots", count]]),
});

export const gibibyte = 1024 ** 3;

/** So many GiB of the group's memory. */
export const gib = (count: number): Amounts => new Map([["memory", count * gibibyte]]);

/** A slot of a group that is not loaded, and that nobody asks for. */
export function member(name: string, more: Partial<Member> = {}): Member {
  return {
    name,
    needs: new Map([["slots", 1]]),
    isRequesting: false,
    isPresent: false,
    isReady: false,
    isLeaving: false,
    isBusy: false,
    isAlways: false,
    isPinned: false,
    priority: 0,
    idleMs: 60_000,
    ...more,
  };
}

export const requesting = { isRequesting: true } as const;
export const loading = { isPresent: true } as const;
export const ready = { isPresent: true, isReady: true } as const;
export const busy = { ...ready, isBusy: true } as const;
