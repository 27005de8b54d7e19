import assert from "node:assert/strict";
import { describe, it } from "node:test";
import pino from "pino";
import { canMove, slotStates, type SlotState } from "../../../src/api/states.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { IllegalMoves } from "../../../src/operator/report/illegal-moves.ts";
import { custom, Site } from "../site.ts";

/** What an operator with a fault could have left behind: another state than that of the engine. */
function misstated(slot: PublishedSlot, state: SlotState): PublishedSlot {
  const { readySince: _ready, ...status } = slot.status;
  const counters = { ...status.counters, transitions: {} };
  return { ...slot, status: { ...status, state, transitions: [], counters } };
}

/** Lines about moves that are forbidden; taken out of the log, in which a site allows no error. */
function told(site: Site): readonly unknown[] {
  const isAbout = (line: string): boolean => line.includes(" may not become ");
  const found = site.log.filter((line) => line.includes('"level":50') && isAbout(line));
  site.log.splice(0, site.log.length, ...site.log.filter((line) => !isAbout(line)));
  return found.map((line) => {
    const { slot, from, to, reason }: Record<string, unknown> = JSON.parse(line);
    return { slot, from, to, reason };
  });
}

async function walk(from: SlotState): Promise<{ states: readonly string[]; errors: readonly unknown[]; page: string }> {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  await site.end();
  site.publisher.slots.set("a", misstated(site.slot("a"), from));
  await site.start();
  await site.advance(30);
  const errors = told(site);
  const page = String((await site.controller.metrics.page.render()).body);
  assert.equal(site.state("a"), "ready", "the operator goes on");
  assert.equal(site.slot("a").status.lastError, undefined, "the engine has not failed");
  return { states: site.states("a"), errors, page };
}

describe("moves that the table of states forbids", () => {
  for (const from of slotStates) {
    it(`are never published from ${from}: error stands between`, async () => {
      const { states, errors, page } = await walk(from);
      for (const [index, to] of states.entries()) {
        const before = slotStates.find((state) => state === (states[index - 1] ?? from));
        const after = slotStates.find((state) => state === to);
        assert.ok(
          before !== undefined && after !== undefined && canMove(before, after),
          `${from}: ${states.join(", ")}`,
        );
      }
      const isForbidden = from === "pulling";
      assert.deepEqual(
        errors,
        isForbidden ? [{ slot: "a", from: "pulling", to: "ready", reason: "Loaded" }] : [],
        "an engine that is ready while its image was said to be fetched",
      );
      if (isForbidden) assert.deepEqual(states, ["error", "ready"]);
      const counted = page.includes('berth_slot_illegal_transitions_total{slot="a",from="pulling",to="ready"} 1');
      assert.equal(counted, isForbidden);
    });
  }

  it("are counted each time, and logged once per slot and pair of states", () => {
    const lines: string[] = [];
    const counted: string[] = [];
    const log = pino({ level: "error" }, { write: (line) => void lines.push(line) });
    const moves = new IllegalMoves(log, ({ slot, to }) => void counted.push(`${slot} ${to}`));
    const move = { slot: "a", from: "pulling", to: "ready", reason: "Loaded" } as const;
    for (const one of [move, move, { ...move, to: "serving" } as const, { ...move, slot: "b" }]) moves.note(one);
    moves.forget("a");
    moves.note(move);
    assert.deepEqual(counted, ["a ready", "a ready", "a serving", "b ready", "a ready"]);
    assert.equal(lines.length, 4);
  });
});
