import assert from "node:assert/strict";
import { test } from "node:test";
import { custom, Site } from "../site.ts";
import { fc } from "../../support/fast-check.ts";

type Event =
  | { readonly do: "demand"; readonly held: number; readonly inFlight: number }
  | { readonly do: "wait"; readonly seconds: number }
  | { readonly do: "gateway"; readonly isGone: boolean }
  | { readonly do: "restart operator" };

const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("demand" as const), held: fc.nat(3), inFlight: fc.nat(2) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("wait" as const), seconds: fc.constantFrom(0.05, 1, 9) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("gateway" as const), isGone: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart operator" as const) }) },
);

test("callers of a cold slot cause one load, however many join and leave, under a new operator too", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { maxLength: 30, size: "max" }),
      fc.constantFrom(0, 900, 30_000),
      async (events, loadMs) => {
        await using site = new Site();
        site.runtime.manner("cold").loadMs = loadMs;
        site.source.save("cold", custom({ load: "onDemand", idleSeconds: 600 }));
        await site.start();
        await site.advance(5);
        assert.deepEqual(site.deeds("cold"), [], "nobody has asked");
        const ask = (held: number, inFlight: number): void =>
          site.demand.set("cold", { held, inFlight, lastRequestAt: site.clock.now().toISOString() });
        ask(1, 0);
        await site.settle();
        for (const each of events) {
          if (each.do === "demand") ask(each.held, each.inFlight);
          else if (each.do === "wait") await site.advance(each.seconds);
          else if (each.do === "gateway") site.demand.isGone = each.isGone;
          else await site.start();
          await site.settle();
          assert.deepEqual(site.deeds("cold").slice(1), []);
        }
        await site.advance(60);
        assert.deepEqual(site.deeds("cold"), ["start main"]);
        assert.equal(site.state("cold"), "ready");
      },
    ),
    { numRuns: 25 },
  );
});
