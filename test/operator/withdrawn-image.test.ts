import assert from "node:assert/strict";
import { it } from "node:test";
import { custom, Site } from "./site.ts";

const byImage = { engine: "custom", runtime: "docker", image: "x:1", model: { default: "m" } } as const;

/** A site whose container engine fetches for ever. */
async function fetching(site: Site, spec: Parameters<Site["source"]["save"]>[1]): Promise<void> {
  const { runtime } = site;
  runtime.isContainerEngineUp = true;
  runtime.prepared = async () =>
    runtime.fetched.length === 0
      ? { state: "absent", message: "x:1 is not here" }
      : { state: "fetching", message: "x:1 is being fetched", progress: { bytesDone: 1 } };
  site.source.save("a", spec);
  await site.start();
}

const changes: Readonly<Record<string, (site: Site) => void>> = {
  "is deleted": (site) => site.source.delete("a"),
  "is disabled": (site) => site.source.save("a", { ...byImage, enabled: false }),
  "needs another that is here": (site) => {
    site.runtime.prepared = async () => ({ state: "ready" });
    site.source.save("a", { ...byImage, image: "y:1" });
  },
  "becomes a process": (site) => site.source.save("a", custom()),
};
for (const [what, change] of Object.entries(changes)) {
  it(`the fetch of an image ends when its slot ${what}`, async () => {
    await using site = new Site();
    await fetching(site, byImage);
    await site.advance(5);
    assert.deepEqual([site.runtime.fetched.length, site.state("a")], [1, "pulling"]);
    change(site);
    await site.advance(5);
    assert.deepEqual(site.runtime.fetched, []);
  });
}

it("the fetch of an image goes on when the client has left that it was begun for", async () => {
  await using site = new Site();
  site.demand.set("a", { held: 1, lastRequestAt: site.clock.now().toISOString() });
  await fetching(site, { ...byImage, load: "onDemand" });
  await site.advance(5);
  assert.equal(site.runtime.fetched.length, 1);
  site.demand.set("a", { held: 0 });
  await site.advance(3600);
  assert.equal(site.runtime.fetched.length, 1);
});
