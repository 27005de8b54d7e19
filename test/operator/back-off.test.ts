import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { custom, Site } from "./site.ts";

/** A slot whose engine somebody has killed again and again, so that it waits for minutes. */
async function backingOff(site: Site): Promise<void> {
  site.source.save("a", custom());
  await site.start();
  for (let kill = 0; kill < 9; kill++) {
    await site.advance(310);
    site.runtime.manner("a").crashAfterMs = 10;
    site.runtime.kill("a");
  }
  await site.advance(600);
  assert.equal(site.state("a"), "error");
  site.runtime.manner("a").crashAfterMs = undefined;
}

describe("a slot that backs off", () => {
  it("says how to cut that short, and a person's restart does: it begins anew", async () => {
    await using site = new Site();
    await backingOff(site);
    const { failures } = site.slot("a").status;
    assert.ok(failures > 5);
    const [step] = site.slot("a").plan.steps;
    assert.equal(
      step?.do === "wait" ? step.reason : "",
      `failure ${failures} in a row; \`berth slot restart a\` or an edit starts it at once; next try`,
    );
    await site.request("a", "restart");
    await site.advance(2);
    assert.equal(site.state("a"), "ready");
    site.runtime.kill("a");
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.slot("a").status.failures], ["ready", 1]);
  });

  it("begins anew with an edit", async () => {
    await using site = new Site();
    await backingOff(site);
    site.source.save("a", custom({ args: ["--other"] }));
    await site.advance(2);
    assert.equal(site.state("a"), "ready");
    site.runtime.kill("a");
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.slot("a").status.failures], ["ready", 1]);
  });
});
