import assert from "node:assert/strict";
import { test } from "node:test";
import { processTraits } from "../../../src/runtimes/process/traits.ts";
import { MemoryRecords } from "../../../src/operator/observe/memory.ts";
import { published } from "../fixture.ts";
import { custom, Site } from "../site.ts";
import { SlotMemories } from "../../../src/operator/slot-memory.ts";

const gibibyte = 1024 ** 3;
const device = "0000:00:06.0";

test("status has the GPU memory of a slot's processes from the moment that the slot is ready until the processes have ended", async () => {
  await using site = new Site();
  site.holdings = [
    { pid: 1001, device, bytes: 9 * gibibyte },
    { pid: 4242, device, bytes: 3 * gibibyte },
  ];
  await site.run({ a: custom() });
  assert.equal(site.slot("a").status.processes[0]?.pid, 1001);
  assert.deepEqual(site.slot("a").status.memory, { devices: [{ id: device, bytes: 9 * gibibyte }] });
  await site.request("a", "unload");
  await site.advance(40);
  assert.equal(site.slot("a").status.memory, undefined);
});

test("only visible changes are published again", async () => {
  const slot = published();
  const [pid = 0] = slot.status.processes.map((process) => process.pid ?? 0);
  let bytes = 9 * gibibyte;
  let asked: readonly number[] = [];
  using book = new MemoryRecords(
    async (pids) => {
      asked = pids;
      return [{ pid, device, bytes }];
    },
    new Map([[slot.name, slot]]),
    (engine, other) => processTraits.owns(engine, other),
    new SlotMemories(),
  );
  const told: string[] = [];
  using _watch = book.watch((name) => told.push(name));
  await book.measure();
  bytes += 100 * 1024 ** 2;
  await book.measure();
  assert.deepEqual(
    [asked, told, book.of("primary")],
    [[pid], ["primary"], { devices: [{ id: device, bytes: 9 * gibibyte }] }],
  );
  bytes += gibibyte;
  await book.measure();
  assert.deepEqual([told.length, book.of("primary")?.devices[0]?.bytes], [2, bytes]);
});
