import assert from "node:assert/strict";
import { after, describe, it, mock } from "node:test";
import { deeds, DispatcherSite, type Deed, type SketchName, type Wish } from "./dispatcher-site.ts";
import { fc } from "../../support/fast-check.ts";

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

async function act(site: DispatcherSite, step: Step): Promise<void> {
  switch (step.do) {
    case "arrive":
      await site.arrive(step.wish);
      return;
    case "engine":
      site.live[step.nth % Math.max(1, site.live.length)]?.do(step.deed);
      break;
    case "publish":
      await site.publish(step.slot, step.sketch);
      return;
    case "wait":
      await site.wait(step.ms);
      return;
    case "leave":
    case "slow":
    case "read": {
      const open = site.arrivals.filter(({ response }) => !response.isClosed);
      const response = open[step.nth % Math.max(1, open.length)]?.response;
      if (step.do === "leave") response?.leave();
      else if (step.do === "slow") response?.readSlowly();
      else response?.readOn();
      break;
    }
    default:
      step satisfies never;
  }
  await site.settle();
}

/** Slots are there, engines answer, clients read, and time passes. */
async function finish(site: DispatcherSite): Promise<void> {
  for (const name of slots) await site.publish(name, "there");
  for (let turn = 0; turn < 100 && site.arrivals.some(({ response }) => !response.isClosed); turn++) {
    for (const { response } of site.arrivals) response.readOn();
    for (const call of site.live) call.do(call.hasBegun ? "finish" : "answer");
    await site.wait(1000);
    site.check();
  }
  site.checkEnd();
}

describe("requests of every kind, under any sequence of events,", () => {
  after(() => mock.timers.reset());

  it("are each answered once, share a call where they are equal and waiting, and stay within their bounds", async () => {
    let joined = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 60, size: "max" }),
        sketch,
        sketch,
        fc.nat(300),
        async (steps, alpha, beta, bytes) => {
          const site = new DispatcherSite({ alpha, beta }, 10 + bytes);
          for (const each of steps) {
            await act(site, each);
            site.check();
          }
          await finish(site);
          joined += site.arrivals.filter(
            ({ group }) => group.members.length > 1 && group.call?.isWhole === true,
          ).length;
        },
      ),
      { numRuns: 250 },
    );
    assert.ok(joined > 0, "what is tried happens");
  });

  it("that share a call are admitted with the first turn of any of their clients", async () => {
    const site = new DispatcherSite({ alpha: "away" }, 1000);
    const own = { slot: "alpha", word: "hello", scope: "all", client: "a", isStream: false } as const;
    const same = { slot: "alpha", word: "hi", scope: "all", isStream: true } as const;
    for (const wish of [own, own, own, { ...same, client: "a" }, { ...same, client: "b" }]) await site.arrive(wish);
    await site.publish("alpha", "there");
    site.check();
    assert.deepEqual(
      site.arrivals.map(({ backendRequest }) => backendRequest.calls.length),
      [1, 0, 0, 1, 0],
      "one of each client's, of two places",
    );
    await finish(site);
    assert.match(site.arrivals[4]?.response.text ?? "", /data: \[DONE\]\n\n$/);
  });

  it("that share a call wait as long as each would alone", async () => {
    const site = new DispatcherSite({ alpha: "away" }, 1000);
    const same = { slot: "alpha", word: "hi", scope: "all", isStream: true } as const;
    await site.arrive({ ...same, client: "a" });
    await site.wait(6000);
    await site.arrive({ ...same, client: "b" });
    await site.wait(4000);
    const [first, second] = site.arrivals.map(({ response }) => response);
    assert.match(first?.text ?? "", /data: \{"error":\{"code":"slot\.not_ready".*\}\}\n\n$/);
    assert.deepEqual([first?.isOver, second?.headersSent], [true, false]);
    site.check();
    await site.wait(5000);
    await finish(site);
    assert.match(
      second?.text ?? "",
      /^: waiting slot=alpha state=starting position=1 waited=\d+s\n\ndata: .*\[DONE\]\n\n$/s,
    );
    assert.deepEqual(
      site.arrivals.map(({ backendRequest }) => backendRequest.calls.length),
      [1, 0],
    );
  });

  it("get comments while they wait, also where they joined before the engine proved unreachable", async () => {
    const site = new DispatcherSite({ alpha: "away" }, 1000);
    const same = { slot: "alpha", word: "hi", scope: "all", isStream: true } as const;
    await site.arrive({ ...same, client: "a" });
    await site.publish("alpha", "there");
    await site.publish("alpha", "away");
    await site.arrive({ ...same, client: "b" });
    site.live[0]?.do("miss");
    await site.settle();
    site.check();
    await site.wait(1000);
    await site.wait(5000);
    for (const { response } of site.arrivals)
      assert.match(response.text, /^: waiting slot=alpha state=starting position=1 waited=\d+s\n\n/);
    await finish(site);
    assert.deepEqual(
      site.arrivals.map(({ backendRequest }) => backendRequest.calls.length),
      [2, 0],
    );
  });

  it("are cut one by one where a reader is too slow for the kept bytes", async () => {
    const site = new DispatcherSite({ alpha: "away" }, 200);
    const same = { slot: "alpha", word: "hi", scope: "all", isStream: true } as const;
    for (const client of ["quick", "slow"]) await site.arrive({ ...same, client });
    const [quick, slow] = site.arrivals;
    await site.publish("alpha", "there");
    slow?.response.readSlowly();
    const [call] = site.live;
    for (let nth = 0; nth < 9; nth++) {
      call?.do("answer");
      await site.settle();
      site.check();
    }
    call?.do("finish");
    await site.settle();
    slow?.response.readOn();
    await site.settle();
    site.checkEnd();
    assert.match(quick?.response.text ?? "", /"nth":7,.*\n\ndata: \[DONE\]\n\n$/);
    assert.match(slow?.response.text ?? "", /"nth":0,.*\n\ndata: \{"error":\{"code":"system\.overloaded".*\}\}\n\n$/);
    assert.deepEqual(
      site.arrivals.map(({ backendRequest }) => backendRequest.calls.length),
      [1, 0],
    );
  });
});
