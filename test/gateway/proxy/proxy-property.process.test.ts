import assert from "node:assert/strict";
import { after, describe, it, mock } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { stopping } from "../../../src/gateway/proxy/handle.ts";
import { deeds, ProxySite, type Deed, type SketchName, type Wish } from "./proxy-site.ts";
import { fc, runs } from "../../support/fast-check.ts";

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
const client = fc.constantFrom<("leave" | "slow" | "read")[]>("leave", "slow", "slow", "read");
const deed = fc.constantFrom<Deed[]>("answer", "answer", "answer", "answer", "answer", ...deeds);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("arrive" as const), wish }) },
  { weight: 4, arbitrary: fc.record({ do: client, nth: fc.nat(20) }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant("engine" as const), nth: fc.nat(5), deed }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("publish" as const), slot, sketch }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.nat(6000) }) },
);

async function act(site: ProxySite, step: Step): Promise<void> {
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
async function finish(site: ProxySite): Promise<void> {
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
          const site = new ProxySite({ alpha, beta }, 10 + bytes);
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
      { numRuns: runs(150) },
    );
    assert.ok(joined > 0, "what is tried happens");
  });

  it("get comments while they wait, also where they joined before the engine proved unreachable", async () => {
    const site = new ProxySite({ alpha: "away" }, 1000);
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

  it("wait no longer than once in all for an engine that stays unreachable", async () => {
    const site = new ProxySite({ alpha: "there" }, 1000);
    site.isUnsettled = true;
    await site.arrive({ slot: "alpha", word: "hi", scope: "all", client: "a", isStream: false });
    const [{ response } = assert.fail()] = site.arrivals;
    for (let elapsedMs = 0; elapsedMs < 20_000 && !response.isOver; elapsedMs += 250) {
      for (const call of site.live) call.do("miss");
      await site.wait(250);
    }
    assert.match(response.text, /"slot.not_ready"/);
    site.checkEnd();
  });

  it("leave no bytes where their client has left before they were read and refused", async () => {
    const site = new ProxySite({ alpha: "there" }, 1000);
    const left = Promise.withResolvers<void>();
    site.whileReading = async (charge) => {
      await left.promise;
      charge.take(500);
      throw new ApiError("dispatch.invalid_request");
    };
    await site.arrive({ slot: "alpha", word: "hi", scope: "all", client: "a", isStream: false });
    site.arrivals[0]?.response.leave();
    await site.settle();
    left.resolve();
    await site.settle();
    site.checkEnd();
  });

  it("are told of the gateway's end while they are read", async () => {
    const site = new ProxySite({ alpha: "there" }, 1000);
    site.whileReading = () => new Promise(() => undefined);
    await site.arrive({ slot: "alpha", word: "hi", scope: "all", client: "a", isStream: false });
    site.proxy.refuseAll(stopping());
    await site.settle();
    const [{ response } = assert.fail()] = site.arrivals;
    assert.match(response.text, /"system.overloaded".*the gateway is stopping/);
  });
});
