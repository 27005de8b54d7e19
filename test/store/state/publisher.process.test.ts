import { open } from "node:fs/promises";
import { it, mock } from "node:test";
import { lastBenchmarkSchema } from "../../../src/api/benchmark.ts";
import { openPublisher } from "../../../src/store/state/publisher.ts";
import { publishedSlot } from "../../support/gateway.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

/** Resolves with a count of the syncs of files and directories in this process from now on. */
async function countedSyncs() {
  await using file = await open(".");
  return mock.method(Object.getPrototypeOf(file), "sync").mock;
}

it("a new generation and a new result of a benchmark are synced to the disk, each once", async () => {
  await using directory = await tempDir();
  const publisher = await openPublisher(directory.path);
  const syncs = await countedSyncs();
  const slot = publishedSlot("a", {}, 1);
  const synced = async (count: number): Promise<void> => {
    await until(`${count} syncs of the file and of its directory`, () => syncs.callCount() === 2 * count);
  };
  await publisher.writeSlot(slot);
  await synced(1);
  await publisher.writeSlot(slot);
  const result = lastBenchmarkSchema.parse({
    measuredAt: "2026-11-23T10:00:00.000Z",
    backend: "cpu",
    runtime: "process",
    maxTokens: 8,
    levels: [{ clients: 1, requests: 1, tokensPerSecond: 5 }],
    of: {},
  });
  const measured = { ...slot, status: { ...slot.status, lastBenchmark: result } };
  await publisher.writeSlot(measured);
  await synced(2);
  await publisher.writeSlot({
    ...measured,
    status: { ...measured.status, lastBenchmark: { ...result, changed: "x" } },
  });
  await publisher.writeSlot({ ...measured, generation: slot.generation + 1 });
  await synced(3);
});
