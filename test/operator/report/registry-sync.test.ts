import assert from "node:assert/strict";
import { it } from "node:test";
import type { ListedPull } from "../../../src/models/fetch/model-pulls.ts";
import { WatchedProgress } from "../../../src/models/fetch/progress.ts";
import { Site } from "../site.ts";

it("the state of a SlotGroup that was deleted and made again while nobody looked is published again", async () => {
  await using site = new Site();
  let written = 0;
  const write = site.publisher.writeRegistry.bind(site.publisher);
  site.publisher.writeRegistry = async (registry) => {
    written += 1;
    await write(registry);
  };
  site.source.group("gpu", { budget: { slots: 1 } }, "first");
  await site.run({});
  assert.equal(written, 1);
  site.source.group("gpu", { budget: { slots: 1 } }, "first");
  await site.advance(5);
  assert.equal(written, 1, "the same object is not written again");
  site.source.group("gpu", { budget: { slots: 1 } }, "second");
  await site.advance(5);
  assert.equal(written, 2);
});

it("a declared model is Reconciling while it is fetched, and a step of progress is published", async () => {
  await using site = new Site();
  const source = "hf://owner/repo/far.gguf";
  const files = [{ source }];
  const progress = Object.assign(new WatchedProgress(), { bytesTotal: 2 ** 30 });
  const model = { ref: "far", files, isOpen: false };
  let pulls: readonly ListedPull[] = [{ key: "far", model, job: { state: "running", progress }, requesters: ["x"] }];
  site.pulls = { ...site.pulls, list: () => pulls };
  const told: string[] = [];
  const write = site.publisher.writeRegistry.bind(site.publisher);
  site.publisher.writeRegistry = async (registry) => {
    told.push(registry.resources?.[0]?.conditions.at(-1)?.message ?? "");
    await write(registry);
  };
  const absent = { state: "missing", reason: "NotFetched", message: "not here yet" } as const;
  site.setModel("far", { origin: "manifest", name: "far", source, files: [], ...absent, fetch: { files } });
  site.source.model("far", { source });
  await site.run({});
  for (const percent of [1, 2, 26, 27, 100]) {
    progress.bytesDone = Math.ceil((percent / 100) * 2 ** 30);
    if (percent === 100) pulls = [];
    site.source.save("primary", { enabled: false }, { percent: String(percent) });
    await site.advance(5);
  }
  const fetched = (percent: number): string => `far is being fetched: ${percent}% of 1.0 GiB`;
  assert.deepEqual(told, [fetched(0), fetched(25), "not here yet"]);
});
