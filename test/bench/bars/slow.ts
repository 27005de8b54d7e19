import { setTimeout as delay } from "node:timers/promises";
import { tempDir } from "../../support/temp-dir.ts";
import { atMost, figure, mebibyte, median, range, told, type Bar } from "../bar.ts";
import { HeapGauge } from "../machine/heap.ts";
import { befallen, loadStreams } from "../machine/load.ts";
import { openStage } from "../machine/stage.ts";

const fast = 100;
const slow = 500;
/** The relay's high-water mark and one read from the engine: what may wait in the gateway for one reader. */
const heldBytes = 2 * 64 * 1024;

/** Readers that do not keep up must cost the others nothing, and the gateway no more than its stated buffers. */
export const slowReaders: Bar = {
  name: "slow",
  about: `${slow} slow readers beside ${fast} fast ones`,
  async run(bench) {
    await using directory = await tempDir();
    const gauge = new HeapGauge(directory.path);
    await using stage = await openStage({ engine: "streams", gateway: gauge.options });
    const port = stage.site.gatewayPort;
    const measure = async (): Promise<number[]> => {
      const p99s: number[] = [];
      for (let round = 0; round < bench.rounds; round++) {
        const result = await loadStreams(port, { streams: fast, events: 100 });
        if (result.whole < fast) throw new Error(`of ${fast} fast readers ${befallen(result, fast)}`);
        p99s.push(result.delay.p99 / 1000);
      }
      return p99s;
    };
    await loadStreams(port, { streams: fast });
    const alone = await measure();
    const before = await gauge.sample(stage.gateway.pid);
    const reading = loadStreams(port, {
      streams: slow,
      events: 100_000,
      everyMs: 20,
      padBytes: 8000,
      bytesPerSecond: 500,
      leaveMs: 16_000 + bench.rounds * 4000,
    });
    // Until the kernel's buffers are full, and what comes more waits in the gateway or before it.
    await delay(10_000);
    const beside = await measure();
    const held = await gauge.sample(stage.gateway.pid);
    const grown = (held.heapUsed + held.external - before.heapUsed - before.external) / mebibyte;
    await reading;
    const ratio = median(beside) / median(alone);
    return [
      atMost(`${fast} fast readers beside ${slow} slow ones: delay p99, of that alone`, ratio, 2, "×"),
      told(
        "the same in figures",
        `alone ${figure(median(alone))} ms${range(alone)}, beside ${figure(median(beside))} ms${range(beside)}`,
      ),
      atMost(`${slow} slow readers: held for them`, grown, (slow * heldBytes) / mebibyte, " MiB"),
      told(`${slow} slow readers: resident memory`, `${figure((held.rss - before.rss) / mebibyte)} MiB more`),
    ];
  },
};
