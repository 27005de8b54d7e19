import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { custom, Site } from "./site.ts";

describe("an automatic port", () => {
  test("is another for each of two slots that find the same port free at once, and nothing has failed", async () => {
    await using site = await new Site().run({ a: custom(), b: custom() });
    assert.deepEqual(
      site.ports.leased.toSorted(),
      ["-", "8081 a/main", "8082 b/main"],
      "both were told 8081, and one lease was refused",
    );
    const starts = site.log.filter((line) => line.includes("b: starting: ") && line.includes("→ lease"));
    assert.equal(starts.length, 1, "what was not carried out is not logged");
    assert.deepEqual([site.slot("a").status.port, site.slot("b").status.port], [8081, 8082]);
    for (const slot of ["a", "b"]) assert.deepEqual(site.states(slot), ["starting", "warming", "ready"]);
  });

  test("avoids the ports that manifests fix, of which each belongs to one slot", async () => {
    await using site = await new Site().run({ a: custom(), b: custom({ port: 8081 }) }, 2);
    assert.deepEqual([site.runtime.portOf("a"), site.runtime.portOf("b")], [8082, 8081]);
    site.source.save("c", custom({ port: 8082 }));
    await site.advance(2);
    const { state, lastError } = site.slot("c").status;
    assert.deepEqual([state, lastError?.message], ["error", "port 8082 is in use by slot a until that one is stopped"]);
    site.source.save("d", custom({ port: 8081 }));
    await site.settle();
    assert.equal(site.condition("d", "Stalled"), "True/PortConflict");
    await site.request("a", "restart");
    await site.advance(10);
    assert.deepEqual([site.state("a"), site.state("c")], ["ready", "ready"]);
  });

  test("is leased for both processes of a slot or for none", async () => {
    await using site = new Site();
    for (let port = 8082; port <= 8088; port++) site.runtime.strangers.add(port);
    await site.run({ embed: { model: { default: "tiny", rerank: "ranker" } } }, 20);
    assert.deepEqual([site.state("embed"), site.condition("embed", "Ready")], ["error", "False/NoFreePort"]);
    assert.deepEqual(site.ports.leased, []);
    site.runtime.strangers.delete(8085);
    await site.advance(10);
    assert.deepEqual([site.state("embed"), ...site.ports.leased], ["ready", "8081 embed/main", "8085 embed/rerank"]);
  });
});
