import { atMost, figure, median, range, told, type Bar } from "../bar.ts";
import { loadRate } from "../machine/load.ts";
import { openStage } from "../machine/stage.ts";
import { runWrk } from "../machine/wrk.ts";
import { requestBody, warmUpSeconds } from "./chat.ts";

/** What Berth adds to a warm request at a rate that leaves the machine room: open loop, direct and through, in turn. */
export const latency: Bar = {
  name: "latency",
  about: "what is added to a warm request at 1000 requests per second",
  async run(bench) {
    const { cores } = bench;
    await using stage = await openStage({ engine: "instant", cores });
    const ask = async (port: number, model: string, seconds: number) => {
      const spec = { port, model, connections: 64, perSecond: 1000, seconds };
      const result = await loadRate(spec, cores.others);
      if (result.answered < result.sent || result.wrong > 0)
        throw new Error(`${result.wrong} wrong, ${result.sent - result.answered} of ${result.sent} not answered`);
      return result;
    };
    // At full speed first: at this rate it would take V8 minutes to optimise what is measured.
    const { directory, gatewayPort: port } = stage.site;
    await runWrk({ directory, port, body: requestBody, connections: 32, seconds: warmUpSeconds, cores: cores.others });
    await ask(stage.site.gatewayPort, "bench", 3);
    const added: number[] = [];
    const addedByNginx: number[] = [];
    const tails: number[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      const direct = (await ask(stage.enginePort, "fixed", 4)).latency;
      const berth = (await ask(stage.site.gatewayPort, "bench", 4)).latency;
      const nginx = (await ask(stage.nginxPort, "fixed", 4)).latency;
      added.push(berth.p50 - direct.p50);
      addedByNginx.push(nginx.p50 - direct.p50);
      tails.push((berth.p99 - direct.p99) / 1000);
      bench.say(`p50 direct ${direct.p50} µs, nginx ${nginx.p50}, berth ${berth.p50}; p99 berth ${berth.p99}`);
    }
    return [
      atMost("added p50 at 1000 requests/s", median(added), 250, " µs", range(added)),
      told("the same of nginx; added p99", `${figure(median(addedByNginx))} µs; ${figure(median(tails))} ms`),
    ];
  },
};
