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
  const files = [{ source: "hf://owner/repo/far.gguf" }] as const;
  const progress = Object.assign(new WatchedProgress(), { bytesTotal: 2 ** 30 });
  let pulls: readonly ListedPull[] = [];
  site.pulls = { ...site.pulls, list: () => pulls };
  const said: string[] = [];
  const write = site.publisher.writeRegistry.bind(site.publisher);
  site.publisher.writeRegistry = async (registry) => {
    const conditions = registry.resources?.flatMap((resource) => resource.conditions) ?? [];
    said.push(
      conditions.map(({ type, status, reason, message }) => `${type} ${status} ${reason} ${message}`).join("; "),
    );
    await write(registry);
  };
  const [{ source }] = files;
  site.setModel("far", {
    origin: "manifest",
    name: "far",
    source,
    files: [],
    state: "missing",
    reason: "NotFetched",
    message: "not here yet",
    fetch: { files: [...files] },
  });
  site.source.model("far", { source });
  await site.run({});
  pulls = [
    {
      key: "far",
      model: { ref: "far", files: [...files], isOpen: false },
      job: { state: "running", progress },
      requesters: ["x"],
    },
  ];
  for (const percent of [0, 1, 2, 26, 27]) {
    progress.bytesDone = Math.ceil((percent / 100) * 2 ** 30);
    site.source.save("primary", { enabled: false }, { percent: String(percent) });
    await site.advance(5);
  }
  pulls = [];
  site.source.save("primary", { enabled: false }, {});
  await site.advance(5);
  const pulling = (percent: number): string => {
    const message = `far is being fetched: ${percent}% of 1.0 GiB`;
    return `Ready Unknown Progressing ${message}; Reconciling True Pulling ${message}`;
  };
  const ready = "Ready True NotFetched not here yet";
  assert.deepEqual(said, [ready, pulling(0), pulling(25), ready]);
});
