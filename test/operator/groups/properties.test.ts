import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fc } from "../../support/fast-check.ts";
import { groupLoad } from "./random-load.ts";
import { simulate, stepMs } from "./simulation.ts";

describe("a group under random load, by slots and by bytes", () => {
  it("is never over its budget, evicts no slot that loads, is pinned or is busy within its bound, and serves every slot", () => {
    let [answered, abandoned] = [0, 0];
    const holds = fc.property(groupLoad, ({ group, rules, requests }) => {
      const { minResidencyMs, maxWaitMs } = rules;
      const run = simulate(group, rules, requests);
      assert.deepEqual(run.problems, []);
      assert.deepEqual([run.left, run.waits.length + run.gaveUp], [0, requests.length]);
      // A turn: until the holder has had its turn, its requests in flight end, and the next is loaded; a load may fail.
      const failed = group.reduce((sum, { failedLoads = 0, loadMs }) => sum + failedLoads * (loadMs + 10_000), 0);
      const turnMs = Math.max(minResidencyMs, 5000) + 20_000 + 20_000 + 4 * stepMs;
      const bound = maxWaitMs + (group.length + 1) * turnMs + failed;
      assert.ok(Math.max(0, ...run.waits) <= bound, `waited ${Math.max(...run.waits)} ms, bound ${bound}`);
      // No slot is loaded for nobody.
      const wasted = group.reduce((sum, { failedLoads = 0 }) => sum + failedLoads, 0);
      assert.ok(run.loads <= requests.length + wasted, `${run.loads} loads for ${requests.length} requests`);
      answered += run.waits.length;
      abandoned += run.gaveUp;
    });
    fc.assert(holds);
    assert.ok(answered > 1000 && abandoned > 20, `${answered} answered, ${abandoned} given up`);
  });
});
