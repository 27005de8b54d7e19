import assert from "node:assert/strict";
import { test } from "node:test";
import { custom, Site } from "./site.ts";

test("of two slots that find the same port free at once one gets another, and nothing has failed", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  site.source.save("b", custom());
  await site.start();
  await site.advance(5);
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

test("a slot of two processes leases both ports or none", async () => {
  await using site = new Site();
  for (let port = 8082; port <= 8088; port++) site.runtime.strangers.add(port);
  site.source.save("embed", { model: { default: "tiny", rerank: "ranker" } });
  await site.start();
  await site.advance(20);
  assert.deepEqual([site.state("embed"), site.condition("embed", "Ready")], ["error", "False/NoFreePort"]);
  assert.deepEqual(site.ports.leased, []);
  site.runtime.strangers.delete(8085);
  await site.advance(10);
  assert.deepEqual([site.state("embed"), ...site.ports.leased], ["ready", "8081 embed/main", "8085 embed/rerank"]);
});

test("an automatic port is never a port on which another slot's engine is published, even without a lease", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(5);
  // As after a restart while the runtime could not be asked what it runs.
  site.ports.release("a");
  site.source.save("b", custom());
  await site.advance(5);
  assert.deepEqual([site.slot("b").status.port, site.state("a")], [8082, "ready"]);
});
