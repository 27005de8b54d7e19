import type { Amounts } from "../../../src/operator/groups/amounts.ts";
import type { GroupRules } from "../../../src/operator/groups/place.ts";
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

const ready = { isPresent: true, isReady: true } as const;
const words: Readonly<Record<string, Partial<Member>>> = {
  asks: { isRequesting: true },
  /** Its client is gone. */
  left: { isRequesting: true, isUnattended: true },
  loads: { isPresent: true },
  ready,
  busy: { ...ready, isBusy: true },
  leaves: { ...ready, isLeaving: true },
  pinned: { isPinned: true },
  always: { isAlways: true },
  unknown: { isUnknown: true },
};
const figures: Readonly<Record<string, (value: number) => Partial<Member>>> = {
  needs: (size) => ({ needs: gib(size) }),
  next: (size) => ({ next: { key: String(size), needs: gib(size) } }),
  idle: (seconds) => ({ idleMs: seconds * 1000 }),
  load: (loadSeconds) => ({ cost: { loadSeconds } }),
  /** Loaded in a second; that long to read its conversation again. */
  read: (contextSeconds) => ({ cost: { loadSeconds: 1, contextTokens: 1000 * contextSeconds, contextSeconds } }),
  priority: (priority) => ({ priority }),
  startup: (startupSeconds) => ({ startupSeconds }),
};

/** The slots of a group in words, sizes in GiB and times in seconds: `a needs=12 ready idle=9, b needs=8 asks`. */
export function members(text: string): readonly Member[] {
  return text.split(", ").map((slot) => {
    const [name = "", ...traits] = slot.split(" ");
    const parts = traits.map((trait) => {
      const [word = "", value] = trait.split("=");
      const part = value === undefined ? words[word] : figures[word]?.(Number(value));
      if (part === undefined) throw new Error(`${slot}: ${trait} is no trait of a slot`);
      return part;
    });
    return member(name, Object.assign({}, ...parts));
  });
}
