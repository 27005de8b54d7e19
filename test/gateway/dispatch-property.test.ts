import assert from "node:assert/strict";
import { after, describe, it, mock } from "node:test";
import { deeds, DispatchWorld, type Deed, type SketchName, type Wish } from "./dispatch-world.ts";
import { fc } from "../support/fast-check.ts";

type Step =
  | { readonly do: "arrive"; readonly wish: Wish }
  | { readonly do: "leave" | "slow" | "read"; readonly nth: number }
  | { readonly do: "engine"; readonly nth: number; readonly deed: Deed }
  | { readonly do: "publish"; readonly slot: string; readonly sketch: SketchName }
  | { readonly do: "wait"; readonly ms: number };

const slots = ["alpha", "beta"] as const;
const slot = fc.constantFrom("alpha", "alpha", "alpha", "beta");
const sketch = fc.oneof(
  { weight: 4, arbitrary: fc.constant<SketchName>("there") },
  { weight: 6, arbitrary: fc.constant<SketchName>("away") },
  { weight: 1, arbitrary: fc.constantFrom<SketchName[]>("failed", "disabled") },
);
const wish: fc.Arbitrary<Wish> = fc.record({
  slot,
  word: fc.constantFrom("hi", "hi", "hello"),
  scope: fc.constantFrom("all", "all", "all", "v1-only"),
  client: fc.constantFrom("a", "b", "c"),
  isStream: fc.constantFrom(true, true, true, false),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("arrive" as const), wish }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom<("leave" | "slow" | "read")[]>("leave", "slow", "slow", "read"),
      nth: fc.nat(20),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("engine" as const),
      nth: fc.nat(5),
      deed: fc.constantFrom<Deed[]>("answer", "answer", "answer", "answer", "answer", ...deeds),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("publish" as const), slot, sketch }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.nat(6000) }) },
);

async function act(world: DispatchWorld, step: Step): Promise<void> {
  switch (step.do) {
    case "arrive":
      await world.arrive(step.wish);
      return;
    case "engine":
      world.live[step.nth % Math.max(1, world.live.length)]?.do(step.deed);
      break;
    case "publish":
      await world.publish(step.slot, step.sketch);
      return;
    case "wait":
      await world.wait(step.ms);
      return;
    case "leave":
    case "slow":
    case "read": {
      const open = world.visits.filter(({ response }) => !response.isClosed);
      const response = open[step.nth % Math.max(1, open.length)]?.response;
      if (step.do === "leave") response?.leave();
      else if (step.do === "slow") response?.readSlowly();
      else response?.readOn();
      break;
    }
    default:
      step satisfies never;
  }
  await world.settle();
}

/** Slots are there, engines answer, clients read, and time passes. */
async function finish(world: DispatchWorld): Promise<void> {
  for (const name of slots) await world.publish(name, "there");
  for (let turn = 0; turn < 100 && world.visits.some(({ response }) => !response.isClosed); turn++) {
    for (const { response } of world.visits) response.readOn();
    for (const call of world.live) call.do(call.hasBegun ? "finish" : "answer");
    await world.wait(1000);
    world.check();
  }
  world.checkEnd();
}

describe("requests of every kind, whatever happens", () => {
  after(() => mock.timers.reset());

  it("are each answered once, shared as one call where they wait for the same, and bounded", async () => {
    let joined = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 60, size: "max" }),
        sketch,
        sketch,
        fc.nat(300),
        async (steps, alpha, beta, bytes) => {
          const world = new DispatchWorld({ alpha, beta }, 10 + bytes);
          for (const each of steps) {
            await act(world, each);
            world.check();
          }
          await finish(world);
          joined += world.visits.filter(({ group }) => group.members.length > 1 && group.call?.isWhole === true).length;
        },
      ),
      { numRuns: 250 },
    );
    assert.ok(joined > 0, "what is tried happens");
  });

  it("is let in with the first turn of any who share it", async () => {
    const world = new DispatchWorld({ alpha: "away" }, 1000);
    const own = { slot: "alpha", word: "hello", scope: "all", client: "a", isStream: false } as const;
    const same = { slot: "alpha", word: "hi", scope: "all", isStream: true } as const;
    for (const wish of [own, own, own, { ...same, client: "a" }, { ...same, client: "b" }]) await world.arrive(wish);
    await world.publish("alpha", "there");
    world.check();
    assert.deepEqual(
      world.visits.map(({ leg }) => leg.calls.length),
      [1, 0, 0, 1, 0],
      "one of each client's, of two places",
    );
    await finish(world);
    assert.match(world.visits[4]?.response.text ?? "", /data: \[DONE\]\n\n$/);
  });

  it("waits as long for each who shares it as for one alone", async () => {
    const world = new DispatchWorld({ alpha: "away" }, 1000);
    const same = { slot: "alpha", word: "hi", scope: "all", isStream: true } as const;
    await world.arrive({ ...same, client: "a" });
    await world.wait(6000);
    await world.arrive({ ...same, client: "b" });
    await world.wait(4000);
    const [first, second] = world.visits.map(({ response }) => response);
    assert.match(first?.text ?? "", /data: \{"error":\{"code":"slot\.not_ready".*\}\}\n\n$/);
    assert.deepEqual([first?.isOver, second?.headersSent], [true, false]);
    world.check();
    await world.wait(5000);
    await finish(world);
    assert.match(
      second?.text ?? "",
      /^: waiting slot=alpha state=starting position=1 waited=\d+s\n\ndata: .*\[DONE\]\n\n$/s,
    );
    assert.deepEqual(
      world.visits.map(({ leg }) => leg.calls.length),
      [1, 0],
    );
  });

  it("is told that it waits, also where it came while the engine was asked, which was not reached", async () => {
    const world = new DispatchWorld({ alpha: "away" }, 1000);
    const same = { slot: "alpha", word: "hi", scope: "all", isStream: true } as const;
    await world.arrive({ ...same, client: "a" });
    await world.publish("alpha", "there");
    await world.publish("alpha", "away");
    await world.arrive({ ...same, client: "b" });
    world.live[0]?.do("miss");
    await world.settle();
    world.check();
    await world.wait(1000);
    await world.wait(5000);
    for (const { response } of world.visits)
      assert.match(response.text, /^: waiting slot=alpha state=starting position=1 waited=\d+s\n\n/);
    await finish(world);
    assert.deepEqual(
      world.visits.map(({ leg }) => leg.calls.length),
      [2, 0],
    );
  });

  it("cuts one that reads too slowly for what may be kept, alone", async () => {
    const world = new DispatchWorld({ alpha: "away" }, 200);
    const same = { slot: "alpha", word: "hi", scope: "all", isStream: true } as const;
    for (const client of ["quick", "slow"]) await world.arrive({ ...same, client });
    const [quick, slow] = world.visits;
    await world.publish("alpha", "there");
    slow?.response.readSlowly();
    const [call] = world.live;
    for (let nth = 0; nth < 9; nth++) {
      call?.do("answer");
      await world.settle();
      world.check();
    }
    call?.do("finish");
    await world.settle();
    slow?.response.readOn();
    await world.settle();
    world.checkEnd();
    assert.match(quick?.response.text ?? "", /"nth":7,.*\n\ndata: \[DONE\]\n\n$/);
    assert.match(slow?.response.text ?? "", /"nth":0,.*\n\ndata: \{"error":\{"code":"system\.overloaded".*\}\}\n\n$/);
    assert.deepEqual(
      world.visits.map(({ leg }) => leg.calls.length),
      [1, 0],
    );
  });
});
