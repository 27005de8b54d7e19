import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { custom, Site } from "./site.ts";

const keyed = custom({ env: { ENGINE_KEY: "$(BEARER)" } });

describe("an engine's bearer", () => {
  it("is published for gateways, and neither in the status nor in the plan", async () => {
    await using site = await new Site().run({ a: keyed });
    const { bearers, bearerList, ...shown } = site.slot("a");
    assert.match(bearers?.main ?? "", /^bearer-\d+$/);
    assert.deepEqual(bearerList, [{ role: "main", ordinal: 0, bearer: bearers?.main }]);
    assert.doesNotMatch(JSON.stringify(shown), /bearer-/);
  });

  it("is not required while a gateway serves that would not send it", async () => {
    await using site = new Site();
    site.demand.sendsBearers = false;
    await site.run({ a: keyed });
    assert.deepEqual([site.state("a"), site.slot("a").bearers], ["ready", undefined]);
    site.demand.sendsBearers = true;
    await site.advance(70);
    assert.deepEqual([site.deeds("a"), site.slot("a").bearers], [["start main"], undefined]);
  });
});
