import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { admit, type Admission } from "../../../src/operator/groups/admit.ts";
import type { Entries } from "../../../src/operator/groups/entries.ts";
import type { GroupRules } from "../../../src/operator/groups/place.ts";
import type { Grant } from "../../../src/operator/plan/grant.ts";
import { gib, members, slots } from "./members.ts";

const times = { maxWaitMs: 60_000, minResidencyMs: 0 };
const oneSlot: GroupRules = { ...slots(1), ...times, minResidencyMs: 30_000 };
const memory: GroupRules = { group: "gpu", capacity: gib(24), ...times };
const lentUntil = "2026-01-01T00:00:00.000Z";

function told(name: string, grant: Grant): string {
  switch (grant.state) {
    case "granted":
      return `${name} has room`;
    case "waiting":
      return `${name} waits for ${grant.holders.join(" ")}${grant.isHopeless ? " in vain" : ""}`;
    case "leaving":
      return `${name} leaves for ${grant.for ?? "nobody"}`;
    case "lent":
    case "pending":
      return `${name} is ${grant.state}`;
    default:
      return grant satisfies never;
  }
}

/** The decision about each slot, and about the next engine of each slot that has one. */
function decision({ grants, nextGrants, entries, requeueMs }: Admission): string {
  const all = [...grants].map(([name, grant]) => told(name, grant));
  for (const [name, { grant }] of nextGrants) {
    const since = grant.state === "granted" ? "" : ` since ${(entries.get(name)?.next?.sinceMs ?? NaN) / 1000} s`;
    all.push(`${told(`${name}'s next`, grant)}${since}`);
  }
  return `${all.toSorted().join(", ")}${requeueMs === undefined ? "" : `; again in ${requeueMs / 1000} s`}`;
}

/**
 * Cases in paragraphs: a name, the slots at one or several moments in seconds, and the decision at the last moment. A
 * moment may be `lent`.
 */
function cases(rules: GroupRules, text: string): void {
  for (const paragraph of text.trim().split("\n\n")) {
    const [name = "", ...lines] = paragraph.split("\n").map((line) => line.trim());
    const expected = lines.pop();
    it(name, () => {
      let admission: Admission | undefined;
      let entries: Entries = new Map();
      for (const moment of lines.flatMap((line) => line.split(" | "))) {
        const [, seconds, isLent, group = ""] = /^(\d+\.?\d*)( lent)?: (.*)$/.exec(moment) ?? [];
        const given = isLent === undefined ? rules : { ...rules, lentUntil };
        admission = admit(members(group), given, entries, Number(seconds) * 1000);
        ({ entries } = admission);
      }
      assert.equal(admission && decision(admission), expected);
    });
  }
}

describe("room for one slot at a time", () => {
  cases(
    oneSlot,
    `
    the first slot with a request gets room
      0: a asks, b
      a has room

    of two slots with requests the first by name gets room, and the other waits
      0: b asks, a asks
      a has room, b waits for a

    a loading slot does not leave, however long another slot waits
      0: a loads, b asks | 900: a loads, b asks
      a has room, b waits for a

    an idle slot stays for its residency
      0: a ready, b | 10: a ready, b asks
      a has room, b waits for a; again in 20 s

    then it leaves
      0: a ready, b | 30: a ready, b asks
      a leaves for b, b waits for a

    a busy slot stays
      0: a busy, b | 40: a busy, b asks
      a has room, b waits for a; again in 60 s

    until the other has waited its bound
      0: a busy, b asks | 60: a busy, b asks
      a leaves for b, b waits for a

    an evicted slot with a new request comes behind the waiting slots
      0: a ready, b asks, c asks | 30: a ready, b asks, c asks
      30.1: a leaves, b asks, c asks | 30.2: a asks, b asks, c asks
      a waits for b, b has room, c waits for b

    two slots wait beside a client that never pauses: each gets room in its turn
      0: a busy, b asks, c asks | 60: a busy, b asks, c asks | 61: a asks, b asks, c asks
      70: a asks, b busy, c asks | 140: a asks, b busy, c asks | 141: a asks, b asks, c asks
      a waits for c, b waits for c, c has room

    an evicted slot that is busy again before the eviction was published stays
      0: a ready, b asks | 30: a ready, b asks | 30.1: a busy, b asks
      a has room, b waits for a; again in 29.9 s

    a pinned slot never leaves
      0: a ready pinned, b asks | 900: a ready pinned, b asks
      a has room, b waits for a

    where always loaded slots have all room, a slot with a request waits in vain
      0: a ready always, b asks
      a has room, b waits for a in vain

    the slots that an edit has put into one group leave down to its budget, as they become idle
      0: a busy, b ready | 30: a busy, b ready
      a has room, b leaves for nobody

    a slot that failed to load gives its room to the next, and then to the remaining ones
      0: a asks, b asks, c asks | 1: a loads, b asks, c asks | 2: a, b asks, c asks
      3: a, b loads, c asks | 4: a, b, c asks
      c has room

    a slot that no client waits for any more comes behind the others, and no busy slot leaves for it
      0: a busy, b asks | 50: a busy, b left, c asks | 90: a busy, b left, c asks
      a has room, b waits for a, c waits for a; again in 20 s

    nor does an idle one
      0: a busy, b asks | 1: a busy, b left | 45: a ready idle=9, b left
      a has room, b waits for a

    until another client asks for it
      0: a busy, b asks | 1: a busy, b left | 45: a ready idle=9, b asks
      a leaves for b, b waits for a

    but it takes room that is free
      0: a busy, b asks | 1: a busy, b left | 6: a, b left
      b has room

    a slot that is started anew for an edit keeps its room
      0: a ready, b asks | 1: a asks, b asks
      a has room, b waits for a

    a group that is lent: a ready slot leaves, a loading slot becomes ready first, and none is loaded
      0: a loads, b asks | 1 lent: a loads, b asks, c | 2 lent: a ready, b asks, c
      a leaves for nobody, b is lent, c is lent

    a slot that waited before the loan is first after it
      0: a busy, z asks | 1: a busy, b asks, z asks | 2 lent: a busy, b asks, z asks | 50: a, b asks, z asks
      b waits for z, z has room
    `,
  );
});

describe("room for several slots", () => {
  cases(
    { ...slots(3), ...times, minResidencyMs: 30_000 },
    `
    the slot of lower priority leaves, then the one unused for longest
      0: a ready priority=5, b ready idle=0, c ready | 30: a ready priority=5, b ready idle=0, c ready, d asks
      a has room, b has room, c leaves for d, d waits for a b c
    `,
  );
  cases(
    { ...slots(2), ...times },
    `
    a slot that has just become ready serves for a while before it leaves, although the next has waited too long
      0: a loads, b loads, c asks | 90: a busy, b busy, c asks
      a has room, b has room, c waits for a b; again in 5 s

    neither a slot with a request nor a slot with new room leaves for another
      0: a ready idle=900, b busy idle=0, c | 1: a ready idle=901, b busy idle=0, c asks
      2: a, b busy idle=0, c asks | 2.001: b busy idle=0, c asks, d asks
      b has room, c has room, d waits for b c; again in 2.999 s

    the slot that loads faster leaves
      0: long ready idle=9 load=1, quick ready idle=9 load=2, new asks
      long leaves for new, new waits for long quick, quick has room

    but a slot that would have to read a long conversation again stays
      0: long ready idle=9 read=8, quick ready idle=9 load=2, new asks
      long has room, new waits for long quick, quick leaves for new

    unless nobody has gone on with the conversation for long
      0: long ready idle=90 read=8, quick ready idle=9 load=2, new asks
      long leaves for new, new waits for long quick, quick has room
    `,
  );
});

describe("room by bytes", () => {
  cases(
    memory,
    `
    as many are loaded as fit, whatever their number
      0: a needs=8 asks, b needs=8 asks, c needs=8 asks, d needs=1 asks
      a has room, b has room, c has room, d waits for a b c

    one slot leaves that makes room alone, though two others are longer unused
      0: a needs=4 ready idle=60, b needs=4 ready idle=60, c needs=12 ready idle=50, d needs=14 asks
      a has room, b has room, c leaves for d, d waits for a b c

    of two slots that would free enough and are unused for as long, the one that loads faster leaves
      0: a needs=12 ready idle=50 load=90, b needs=12 ready idle=40 load=5, c needs=12 asks
      a has room, b leaves for c, c waits for a b

    the one that was used in an earlier minute leaves, although it loads slower
      0: a needs=12 ready idle=60 load=90, b needs=12 ready idle=40 load=5, c needs=12 asks
      a leaves for c, b has room, c waits for a b

    two of low priority leave, not one of higher priority that would make room alone
      0: a needs=4 ready, b needs=4 ready, c needs=12 ready priority=1, d needs=12 asks
      a leaves for d, b leaves for d, c has room, d waits for a b c

    the one unused for longest stays where its room is too little and that of the next is enough
      0: a needs=4 ready idle=900, b needs=8 ready idle=600, c needs=10 ready idle=0, d needs=9 asks
      a has room, b leaves for d, c has room, d waits for a b c

    two leave for a larger one, and none before both can
      0: a needs=12 ready, b needs=12 busy, c needs=20 asks
      a has room, b has room, c waits for a b; again in 5 s

    a small slot that fits beside the first waiting one goes before it
      0: a needs=12 busy, b needs=20 asks, c needs=4 asks
      a has room, b waits for a c, c has room; again in 5 s

    a slot that would be in its way does not
      0: a needs=12 busy, b needs=20 asks, c needs=6 asks
      a has room, b waits for a, c waits for a; again in 5 s

    a slot that can never fit beside always loaded slots waits in vain, before its first request too, and delays no other
      0: a needs=12 ready always, b needs=20 asks, c needs=12 asks, d needs=25
      a has room, b waits for a c in vain, c has room, d waits for a c in vain

    loaded slots that grew beyond the budget leave as they become idle
      0: a needs=16 busy, b needs=12 ready
      a has room, b leaves for nobody

    room is not granted before the slot that leaves is gone
      0: a needs=20 leaves, b needs=20 asks
      a leaves for b, b waits for a
    `,
  );
});

describe("room for the next engine of a loaded slot", () => {
  const present = "a needs=10 next=16 ready";
  cases(
    { ...memory, capacity: gib(20), maxWaitMs: 30_000 },
    `
    a slot that fits beside the present engine and beside the next one is loaded before
      0: ${present}, b needs=8 busy | 1: ${present}, b needs=8 busy, c needs=2 asks
      a has room, a's next waits for b c since 0 s, b has room, c has room; again in 4 s

    a slot that fits beside the present engine alone waits behind it
      0: a needs=6 next=16 busy, b needs=8 busy | 2: a needs=6 next=16 busy, b needs=8 busy, c needs=5 asks
      a has room, a's next waits for b since 0 s, b has room, c waits for a b; again in 3 s

    counts from the moment at which it is granted, and its slot is not told to leave
      0: ${present}, c needs=6 | 40: ${present}, c needs=6 asks
      a has room, a's next has room, c waits for a; again in 30 s

    is not granted to a slot that the same decision tells to leave
      40: a needs=4 next=6 ready, c needs=18 asks
      a has room, a's next has room, c waits for a; again in 5 s

    a smaller need keeps its turn
      0: ${present}, b needs=8 busy | 5: a needs=10 next=14 ready, b needs=8 busy
      a has room, a's next waits for b since 0 s, b has room; again in 25 s

    gets room once it fits
      0: ${present}, b needs=8 busy | 6: a needs=10 next=11 ready, b needs=8 busy
      a has room, a's next has room, b has room

    a need that grows after it got room takes a new turn
      0: a needs=10 next=11 ready, b needs=8 busy | 7: a needs=10 next=15 ready, b needs=8 busy
      a has room, a's next waits for b since 7 s, b has room; again in 30 s

    a slot that makes room while it waits for its own next engine leaves for the slot behind it
      0: ${present}, b needs=8 busy | 1: ${present}, b needs=8 busy, c needs=2 loads, d needs=9 asks
      a leaves for d, a's next waits for b c since 0 s, b has room, c has room, d waits for a b c; again in 4 s

    waits while the group is lent, and keeps its turn
      0: ${present}, b needs=8 busy | 5 lent: ${present}, b needs=8 busy
      a leaves for nobody, a's next is lent since 0 s, b leaves for nobody
    `,
  );
});
