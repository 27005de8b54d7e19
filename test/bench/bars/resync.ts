import { atMost, median, range, told, figure, type Bar } from "../bar.ts";
import { engineCommand, openSite } from "../machine/site.ts";

const slots = 1000;

/**
 * A resync reads and judges every slot. Seen from outside it is what an operator does when it starts: the time from
 * start to ready with 1000 slots, less the same with none, bounds it from above.
 */
export const resync: Bar = {
  name: "resync",
  about: `a full look at ${slots} slots`,
  async run(bench) {
    await using full = await openSite();
    for (let index = 0; index < slots; index++)
      await full.slot(`rest${index}`, { load: "onDemand", command: engineCommand() });
    await using empty = await openSite();
    const first = performance.now();
    await (await full.operator()).stop();
    const firstMs = performance.now() - first;
    await (await empty.operator()).stop();
    const costs: number[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      const times: number[] = [];
      for (const site of [empty, full]) {
        const began = performance.now();
        const operator = await site.operator();
        times.push(performance.now() - began);
        await operator.stop();
      }
      const [without = 0, including = 0] = times;
      bench.say(`start with ${slots} slots ${Math.round(including)} ms, with none ${Math.round(without)} ms`);
      costs.push((including - without) / 1000);
    }
    return [
      atMost(`full look at ${slots} slots (start with them, less start without)`, median(costs), 1, " s", range(costs)),
      told(`first start ever with ${slots} slots`, `${figure(firstMs / 1000)} s`),
    ];
  },
};
