import assert from "node:assert/strict";
import { test } from "node:test";
import { custom, Site } from "../site.ts";
import { fc, runs } from "../../support/fast-check.ts";

const event = fc.oneof(
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
        await site.run({ cold: custom({ load: "onDemand", idleSeconds: 600 }) });
        assert.deepEqual(site.deeds("cold"), [], "nobody has asked");
        site.ask("cold", { held: 1 });
        await site.settle();
        for (const each of events) {
          if (each.do === "demand") site.ask("cold", { held: each.held, inFlight: each.inFlight });
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
    { numRuns: runs(8) },
  );
});
