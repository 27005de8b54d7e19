import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { openConnections } from "../../../src/models/fetch/connections.ts";

/** Opens connections on a mocked clock; each is open until `end`. */
function site(context: TestContext, most: number) {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const ends: (() => void)[] = [];
  const counts = { blocks: 0, waits: 0 };
  const all = openConnections(async () => await new Promise<void>((end) => ends.push(end)), { most, counts });
  return {
    all,
    counts,
    opened: () => ends.length,
    wait: () => context.mock.timers.tick(250),
    end: () => ends.forEach((end) => end()),
  };
}

it("opens one connection after the other where the network is slower than the disk, up to the most", async (context) => {
  const { all, opened, wait, end } = site(context, 3);
  const seen = [opened()];
  for (let period = 0; period < 4; period++) seen.push((wait(), opened()));
  assert.deepEqual(seen, [1, 2, 3, 3, 3]);
  end();
  await all;
});

it("opens no further connection while most blocks wait for the disk", async (context) => {
  const { all, counts, opened, wait, end } = site(context, 3);
  Object.assign(counts, { blocks: 10, waits: 9 });
  wait();
  assert.equal(opened(), 1);
  Object.assign(counts, { blocks: 10, waits: 2 });
  wait();
  assert.equal(opened(), 2);
  end();
  await all;
});
