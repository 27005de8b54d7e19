import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { admit, type Admission } from "../../../src/operator/groups/admit.ts";
import type { GroupRules } from "../../../src/operator/groups/rules.ts";
import type { Entries } from "../../../src/operator/groups/entries.ts";
import type { Member } from "../../../src/operator/groups/member.ts";
import { requesting, busy, gib, loading, member, ready, slots } from "./members.ts";

const rules: GroupRules = { ...slots(1), maxWaitMs: 60_000, minResidencyMs: 30_000 };

/** The decision for each slot at the last of several moments, in milliseconds. */
function grants(moments: readonly (readonly [atMs: number, ...members: Member[]])[], given = rules): string {
  let entries: Entries = new Map();
  let last: Admission | undefined;
  for (const [atMs, ...members] of moments) {
    last = admit(members, given, entries, atMs);
    ({ entries } = last);
  }
  const told = [...(last?.grants ?? [])].map(([name, grant]) => {
    if (grant.state === "pending") return `${name} is not decided about`;
    if (grant.state === "waiting")
      return `${name} waits for ${grant.holders.join(" ")}${grant.isHopeless ? " in vain" : ""}`;
    return grant.state === "leaving" ? `${name} leaves for ${grant.for ?? "nobody"}` : `${name} has a place`;
  });
  return `${told.toSorted().join(", ")}${last?.requeueMs === undefined ? "" : `; again in ${last.requeueMs / 1000} s`}`;
}

describe("which slot of a group may be loaded", () => {
  const table: readonly [what: string, told: string, expected: string][] = [
    [
      "the first slot with a request has the place",
      grants([[0, member("a", requesting), member("b")]]),
      "a has a place",
    ],
    [
      "of two slots with requests the first by name has the place, and the other waits",
      grants([[0, member("b", requesting), member("a", requesting)]]),
      "a has a place, b waits for a",
    ],
    [
      "a loading slot does not leave, however long another slot waits",
      grants([
        [0, member("a", loading), member("b", requesting)],
        [900_000, member("a", loading), member("b", requesting)],
      ]),
      "a has a place, b waits for a",
    ],
    [
      "an idle slot stays for its residency",
      grants([
        [0, member("a", ready), member("b")],
        [10_000, member("a", ready), member("b", requesting)],
      ]),
      "a has a place, b waits for a; again in 20 s",
    ],
    [
      "then it leaves",
      grants([
        [0, member("a", ready), member("b")],
        [30_000, member("a", ready), member("b", requesting)],
      ]),
      "a leaves for b, b waits for a",
    ],
    [
      "a busy slot stays",
      grants([
        [0, member("a", busy), member("b")],
        [40_000, member("a", busy), member("b", requesting)],
      ]),
      "a has a place, b waits for a; again in 60 s",
    ],
    [
      "until the other has waited its bound",
      grants([
        [0, member("a", busy), member("b", requesting)],
        [60_000, member("a", busy), member("b", requesting)],
      ]),
      "a leaves for b, b waits for a",
    ],
    [
      "a slot that has just become ready serves for a while before it leaves, although the next has waited too long",
      grants(
        [
          [0, member("a", loading), member("b", requesting)],
          [90_000, member("a", busy), member("b", requesting)],
        ],
        { ...rules, minResidencyMs: 0 },
      ),
      "a has a place, b waits for a; again in 5 s",
    ],
    [
      "an evicted slot with a new request comes behind the waiting slots",
      grants([
        [0, member("a", ready), member("b", requesting), member("c", requesting)],
        [30_000, member("a", ready), member("b", requesting), member("c", requesting)],
        [30_100, member("a", { ...ready, isLeaving: true }), member("b", requesting), member("c", requesting)],
        [30_200, member("a", requesting), member("b", requesting), member("c", requesting)],
      ]),
      "a waits for b, b has a place, c waits for b",
    ],
    [
      "an evicted slot that is busy again before the eviction was published stays",
      grants([
        [0, member("a", ready), member("b", requesting)],
        [30_000, member("a", ready), member("b", requesting)],
        [30_100, member("a", busy), member("b", requesting)],
      ]),
      "a has a place, b waits for a; again in 29.9 s",
    ],
    [
      "a pinned slot never leaves",
      grants([
        [0, member("a", { ...ready, isPinned: true }), member("b", requesting)],
        [900_000, member("a", { ...ready, isPinned: true }), member("b", requesting)],
      ]),
      "a has a place, b waits for a",
    ],
    [
      "where always loaded slots have every place, a slot with a request waits in vain",
      grants([[0, member("a", { ...ready, isAlways: true }), member("b", requesting)]]),
      "a has a place, b waits for a in vain",
    ],
    [
      "of two places the slot of lower priority leaves, then the one unused for longest",
      grants(
        [
          [0, member("a", { ...ready, priority: 5 }), member("b", { ...ready, idleMs: 9 }), member("c", ready)],
          [
            30_000,
            member("a", { ...ready, priority: 5 }),
            member("b", { ...ready, idleMs: 9 }),
            member("c", ready),
            member("d", requesting),
          ],
        ],
        { ...rules, ...slots(3) },
      ),
      "a has a place, b has a place, c leaves for d, d waits for a b c",
    ],
    [
      "what an edit has put into one group leaves down to its budget, as it becomes idle",
      grants([
        [0, member("a", busy), member("b", ready)],
        [30_000, member("a", busy), member("b", ready)],
      ]),
      "a has a place, b leaves for nobody",
    ],
    [
      "a slot that failed to load gives its place to the next",
      grants([
        [0, member("a", requesting), member("b", requesting)],
        [1000, member("a", loading), member("b", requesting)],
        [2000, member("a"), member("b", requesting)],
      ]),
      "b has a place",
    ],
    [
      "a slot that no client waits for any more comes behind the others, and no busy slot leaves for it",
      grants([
        [0, member("a", busy), member("b", requesting)],
        [50_000, member("a", busy), member("b", { ...requesting, isUnattended: true }), member("c", requesting)],
        [90_000, member("a", busy), member("b", { ...requesting, isUnattended: true }), member("c", requesting)],
      ]),
      "a has a place, b waits for a, c waits for a; again in 20 s",
    ],
    [
      "a slot that is started anew for an edit keeps its place",
      grants([
        [0, member("a", ready), member("b", requesting)],
        [1000, member("a", requesting), member("b", requesting)],
      ]),
      "a has a place, b waits for a",
    ],
  ];
  for (const [what, told, expected] of table) it(what, () => assert.equal(told, expected));
});

describe("room by bytes", () => {
  const memory: GroupRules = { group: "gpu", capacity: gib(24), maxWaitMs: 60_000, minResidencyMs: 0 };
  const sized = (name: string, size: number, more: Partial<Member> = {}): Member =>
    member(name, { ...more, needs: gib(size) });
  /** The messages of those who wait. */
  const said = (...members: Member[]): readonly string[] =>
    [...admit(members, memory, new Map(), 0).grants.values()].flatMap((grant) =>
      grant.state === "waiting" ? [grant.message] : [],
    );
  const table: readonly [what: string, told: string, expected: string][] = [
    [
      "as many are loaded as fit, whatever their number",
      grants(
        [
          [
            0,
            sized("a", 8, requesting),
            sized("b", 8, requesting),
            sized("c", 8, requesting),
            sized("d", 1, requesting),
          ],
        ],
        memory,
      ),
      "a has a place, b has a place, c has a place, d waits for a b c",
    ],
    [
      "one slot leaves that makes room alone, though two others are longer unused",
      grants(
        [
          [
            0,
            sized("a", 4, { ...ready, idleMs: 60_000 }),
            sized("b", 4, { ...ready, idleMs: 60_000 }),
            sized("c", 12, { ...ready, idleMs: 50_000 }),
            sized("d", 14, requesting),
          ],
        ],
        memory,
      ),
      "a has a place, b has a place, c leaves for d, d waits for a b c",
    ],
    [
      "of two slots that would free enough room, the one that loads faster leaves",
      grants(
        [
          [
            0,
            sized("a", 12, { ...ready, cost: { loadSeconds: 90 } }),
            sized("b", 12, { ...ready, idleMs: 40_000, cost: { loadSeconds: 5 } }),
            sized("c", 12, requesting),
          ],
        ],
        memory,
      ),
      "a has a place, b leaves for c, c waits for a b",
    ],
    [
      "two leave for a larger one, and none before both can",
      grants([[0, sized("a", 12, ready), sized("b", 12, busy), sized("c", 20, requesting)]], memory),
      "a has a place, b has a place, c waits for a b; again in 5 s",
    ],
    [
      "a small slot that fits beside the first waiting one goes before it",
      grants([[0, sized("a", 12, busy), sized("b", 20, requesting), sized("c", 4, requesting)]], memory),
      "a has a place, b waits for a c, c has a place; again in 5 s",
    ],
    [
      "one that would be in its way does not",
      grants([[0, sized("a", 12, busy), sized("b", 20, requesting), sized("c", 6, requesting)]], memory),
      "a has a place, b waits for a, c waits for a; again in 5 s",
    ],
    [
      "a slot that can never fit beside always loaded slots waits in vain, and delays no other slot",
      grants(
        [[0, sized("a", 12, { ...ready, isAlways: true }), sized("b", 20, requesting), sized("c", 12, requesting)]],
        memory,
      ),
      "a has a place, b waits for a c in vain, c has a place",
    ],
    [
      "loaded slots that grew beyond the budget leave as they become idle",
      grants([[0, sized("a", 16, busy), sized("b", 12, ready)]], memory),
      "a has a place, b leaves for nobody",
    ],
    [
      "room is not granted before what leaves is gone",
      grants([[0, sized("a", 20, { ...ready, isLeaving: true }), sized("b", 20, requesting)]], memory),
      "a leaves for b, b waits for a",
    ],
  ];
  for (const [what, told, expected] of table) it(what, () => assert.equal(told, expected));

  it("names the slots with their memory, the slots that stay, and the slots that still load", () => {
    assert.deepEqual(
      said(sized("a", 12, { ...ready, isPinned: true }), sized("b", 8, loading), sized("c", 10, requesting)),
      [
        "group gpu is full: it needs 10.0 GiB, and of 24.0 GiB of memory a holds 12.0 GiB (is pinned, and leaves only when it is idle for its own idle time) and b holds 8.0 GiB (still loads)",
      ],
    );
    assert.deepEqual(said(sized("a", 30, requesting)), [
      "group gpu has too little for it: it needs 30.0 GiB, and the group has 24.0 GiB of memory; a smaller model or a larger budget helps",
    ]);
    assert.deepEqual(said(sized("a", 20, { ...ready, isAlways: true }), sized("b", 20, requesting)), [
      "group gpu is full: it needs 20.0 GiB, and of 24.0 GiB of memory a holds 20.0 GiB (is always loaded); always loaded slots never leave",
    ]);
  });
});
