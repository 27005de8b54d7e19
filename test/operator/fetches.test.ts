import assert from "node:assert/strict";
import { it } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { custom, Site } from "./site.ts";

const byImage = { engine: "custom", runtime: "docker", image: "x:1", model: { default: "m" } } as const;

/** A site whose container engine fetches for ever. */
async function fetching(spec: SlotSpecInput, site = new Site()): Promise<Site> {
  const { runtime } = site;
  runtime.isContainerEngineUp = true;
  runtime.prepared = async () =>
    runtime.fetched.length === 0
      ? { state: "absent", message: "x:1 is not here" }
      : { state: "fetching", message: "x:1 is being fetched", progress: { bytesDone: 1 } };
  return await site.run({ a: spec });
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
    await using site = await fetching(byImage);
    assert.deepEqual([site.runtime.fetched.length, site.state("a")], [1, "pulling"]);
    change(site);
    await site.advance(5);
    assert.deepEqual(site.runtime.fetched, []);
  });
}

it("the fetch of an image goes on when the client has left that it was begun for", async () => {
  const asking = new Site();
  asking.ask("a", { held: 1 });
  await using site = await fetching({ ...byImage, load: "onDemand" }, asking);
  assert.equal(site.runtime.fetched.length, 1);
  site.demand.set("a", { held: 0 });
  await site.advance(600);
  assert.equal(site.runtime.fetched.length, 1);
});
