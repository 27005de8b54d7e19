import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fc } from "../../support/fast-check.ts";
import { admit } from "../../../src/operator/groups/admit.ts";
import type { GroupRules } from "../../../src/operator/groups/rules.ts";
import { amountOf, exceeded } from "../../../src/operator/groups/amounts.ts";
import type { Entries } from "../../../src/operator/groups/entries.ts";
import { grown, type Member } from "../../../src/operator/groups/member.ts";
import { requesting, gib, member, ready } from "./members.ts";

const rules: GroupRules = { group: "gpu", capacity: gib(20), maxWaitMs: 30_000, minResidencyMs: 0 };

const loaded = (name: string, size: number, next?: number): Member =>
  member(name, {
    ...ready,
    needs: gib(size),
    ...(next === undefined ? {} : { next: { key: `${next}`, needs: gib(next) } }),
  });

describe("the next engine of a loaded slot", () => {
  it("waits in one line with the slots that wait for a place", () => {
    const busy = { ...loaded("b", 8), isBusy: true };
    const first = admit([loaded("a", 10, 16), busy], rules, new Map(), 0);
    assert.deepEqual(first.entries.get("a")?.next, { state: "waiting", sinceMs: 0 });
    const second = admit(
      [loaded("a", 10, 16), busy, member("c", { ...requesting, needs: gib(2) })],
      rules,
      first.entries,
      1000,
    );
    // c fits now, but not beside a as it will be when b has left.
    const third = admit(
      [
        loaded("a", 10, 16),
        busy,
        member("c", { ...requesting, needs: gib(2) }),
        member("d", { ...requesting, needs: gib(9) }),
      ],
      rules,
      second.entries,
      2000,
    );
    assert.deepEqual(second.grants.get("c"), { state: "granted" });
    assert.equal(third.grants.get("d")?.state, "waiting");
    assert.deepEqual([...third.entries.keys()].slice(-2), ["a", "d"]);
  });

  it("counts with the present one from the moment it is granted, and its slot is not told to leave", () => {
    const before = admit([loaded("a", 10, 16), member("c", { needs: gib(6) })], rules, new Map(), 0);
    assert.deepEqual(before.nextGrants.get("a"), { key: "16", grant: { state: "granted" } });
    const after = admit(
      [loaded("a", 10, 16), member("c", { ...requesting, needs: gib(6) })],
      rules,
      before.entries,
      40_000,
    );
    assert.deepEqual([after.grants.get("a"), after.grants.get("c")?.state], [{ state: "granted" }, "waiting"]);
  });

  it("is not granted to a slot that the same decision tells to leave", () => {
    // a grows into what is free; c waits longest by name only after a, and a alone could make room for it.
    const { grants, nextGrants } = admit(
      [loaded("a", 4, 6), member("c", { ...requesting, needs: gib(18) })],
      rules,
      new Map(),
      40_000,
    );
    assert.deepEqual([grants.get("a"), nextGrants.get("a")?.grant], [{ state: "granted" }, { state: "granted" }]);
    assert.equal(grants.get("c")?.state, "waiting");
  });

  it("is decided anew where its need changes, in its turn", () => {
    const busy = { ...loaded("b", 8), isBusy: true };
    const first = admit([loaded("a", 10, 16), busy], rules, new Map(), 0);
    const second = admit([loaded("a", 10, 14), busy], rules, first.entries, 5000);
    assert.deepEqual(second.entries.get("a")?.next, { state: "waiting", sinceMs: 0 });
    const third = admit([loaded("a", 10, 11), busy], rules, second.entries, 6000);
    assert.deepEqual(third.nextGrants.get("a"), { key: "11", grant: { state: "granted" } });
    const fourth = admit([loaded("a", 10, 15), busy], rules, third.entries, 7000);
    assert.deepEqual(fourth.entries.get("a")?.next, { state: "waiting", sinceMs: 7000 });
  });

  it("is refused while the group is lent, and keeps its turn", () => {
    const busy = { ...loaded("b", 8), isBusy: true };
    const first = admit([loaded("a", 10, 16), busy], rules, new Map(), 0);
    const until = "2026-01-01T00:00:00.000Z";
    const lent = admit([loaded("a", 10, 16), busy], { ...rules, lentUntil: until }, first.entries, 5000);
    assert.deepEqual(lent.nextGrants.get("a")?.grant, { state: "lent", until });
    assert.deepEqual(lent.entries.get("a")?.next, { state: "waiting", sinceMs: 0 });
  });
});

interface Slot {
  size: number;
  next: number | undefined;
  state: "offline" | "requesting" | "loading" | "ready" | "leaving";
  isBusy: boolean;
}

const index = fc.nat(3);
const event = fc.oneof(
  fc.record({ do: fc.constant("ask" as const), index }),
  fc.record({ do: fc.constant("busy" as const), index }),
  fc.record({ do: fc.constant("rest" as const), index }),
  fc.record({ do: fc.constant("swap" as const), index, size: fc.integer({ min: 1, max: 24 }) }),
  fc.record({ do: fc.constant("ready" as const), index }),
  fc.record({ do: fc.constant("gone" as const), index }),
  fc.record({ do: fc.constant("replace" as const), index }),
  fc.record({ do: fc.constant("pass" as const), index, ms: fc.integer({ min: 1, max: 60_000 }) }),
);

describe("a group whose slots are swapped and loaded in any order", () => {
  it("never grants more than its budget, and never both the next engine and the leave", () => {
    let [granted, waited] = [0, 0];
    fc.assert(
      fc.property(fc.array(event, { minLength: 20, maxLength: 120 }), (events) => {
        const slots = [6, 6, 9, 14].map((size): Slot => ({ size, next: undefined, state: "offline", isBusy: false }));
        let entries: Entries = new Map();
        let nowMs = 0;
        const members = (): Member[] =>
          slots.map(({ size, next, state, isBusy }, at) =>
            member(`s${at}`, {
              needs: gib(size),
              isRequesting: state === "requesting",
              isPresent: state === "loading" || state === "ready" || state === "leaving",
              isReady: state === "ready" || state === "leaving",
              isLeaving: state === "leaving",
              isBusy,
              ...(next === undefined || state === "offline" || state === "requesting"
                ? {}
                : { next: { key: `${next}`, needs: gib(next) } }),
            }),
          );
        let admission = admit(members(), rules, entries, nowMs);
        for (const each of events) {
          const slot = slots[each.index];
          if (slot === undefined) continue;
          const name = `s${each.index}`;
          const isPresent = slot.state === "ready" || slot.state === "loading";
          if (each.do === "ask" && slot.state === "offline") slot.state = "requesting";
          if (each.do === "busy" && slot.state === "ready") slot.isBusy = true;
          if (each.do === "rest") slot.isBusy = false;
          if (each.do === "pass") nowMs += each.ms;
          if (each.do === "swap" && isPresent) slot.next = each.size;
          if (each.do === "swap" && !isPresent && slot.state !== "leaving") slot.size = each.size;
          if (each.do === "ready" && slot.state === "loading") slot.state = "ready";
          if (each.do === "gone" && slot.state === "leaving")
            Object.assign(slot, { state: "offline", isBusy: false, size: slot.next ?? slot.size, next: undefined });
          if (each.do === "replace" && isPresent && admission.nextGrants.get(name)?.grant.state === "granted")
            Object.assign(slot, { state: "loading", isBusy: false, size: slot.next ?? slot.size, next: undefined });
          admission = admit(members(), rules, entries, nowMs);
          ({ entries } = admission);
          check(members(), admission);
          for (const [at, { name: each }] of members().entries()) {
            const [state, to] = [slots[at], admission.grants.get(each)?.state];
            if (state?.state === "requesting" && to === "granted") state.state = "loading";
            if (state?.state === "ready" && to === "leaving") state.state = "leaving";
          }
        }
      }),
      { numRuns: 300 },
    );
    assert.ok(granted > 500 && waited > 500, `${granted} granted, ${waited} waited`);

    function check(members: readonly Member[], { grants, nextGrants }: ReturnType<typeof admit>): void {
      const holding = members.flatMap((each) => {
        const grant = grants.get(each.name)?.state;
        const next = nextGrants.get(each.name)?.grant.state;
        if (next === "granted") granted += 1;
        if (next === "waiting") waited += 1;
        if (next === "granted") assert.notEqual(grant, "leaving", each.name);
        if (grant === "leaving") assert.ok(each.isReady, `${each.name} loads, and is told to leave`);
        if (next === "granted") return [grown(each)];
        return each.isPresent || grant === "granted" ? [each] : [];
      });
      const sums = holding.map(({ name, needs }) => `${name} ${amountOf(needs, "memory") / 1024 ** 3}`);
      assert.deepEqual(exceeded(holding, rules.capacity), [], sums.join(", "));
    }
  });
});
