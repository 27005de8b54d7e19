import { createServer } from "node:http";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { listen } from "../../support/listen.ts";
import { atLeast, figure, median, range, told, type Bar } from "../bar.ts";
import { cpuSeconds } from "../machine/cpu.ts";
import { nginxEngine } from "../machine/nginx.ts";
import { openSite, type Site } from "../machine/site.ts";
import { runWrk } from "../machine/wrk.ts";
import { requestBody, warmUpSeconds } from "./chat.ts";

const title = (what: string): string => `requests per CPU second with ${what}, of those without`;

/**
 * Two gateways, loaded at the same time since the machine's speed changes. Processor time bounds a gateway's throughput. V8
 * optimises each process in its own way: `nothing` says how much two gateways with the same settings differ.
 */
export const telemetry: Bar = {
  name: "telemetry",
  about: "processor time of warm chat with telemetry, against one without",
  async run(bench) {
    const receiver = createServer((request, response) => {
      request.resume().on("end", () => response.end("{}"));
    });
    const receiverUrl = `http://127.0.0.1:${await listen(receiver)}`;
    await using site = await openSite({ slotPorts: 1 });
    const engine = await nginxEngine(join(site.directory, "engine"), { port: site.enginePort, model: "fixed" });
    await site.slot("bench", { model: { default: "fixed" }, command: engine });
    await site.operator();
    await site.state("bench", "ready");
    const log = { SVC_LOG_LEVEL: "info" };
    const nothing = await compared(bench.rounds, site, {});
    const logged = await compared(bench.rounds, site, log, true);
    const traced = await compared(bench.rounds, site, { ...log, SVC_TRACES_ENDPOINT: receiverUrl }, true);
    receiver.close();
    return [
      told(title("nothing"), `${figure(median(nothing))}×${range(nothing)}`),
      atLeast(title("access log, metrics and a scrape a second"), median(logged), 0.93, "×", range(logged)),
      told(title("these and traces"), `${figure(median(traced))}×${range(traced)}`),
    ];
  },
};

/** The ratio of each round: requests per second of the processor with `env`, of those without it. */
async function compared(rounds: number, site: Site, env: NodeJS.ProcessEnv, isScraped = false): Promise<number[]> {
  const ratios: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const gateways = await Promise.all(
      [{}, env].map(async (own, nth) => ({
        port: site.sparePort + nth,
        started: await site.gateway({ port: site.sparePort + nth, env: own }),
      })),
    );
    const both = (): Promise<number[]> =>
      Promise.all(
        gateways.map(async ({ port, started: { pid } }) => {
          const before = cpuSeconds(pid);
          return (await loaded(site, port)) / (cpuSeconds(pid) - before);
        }),
      );
    const scraped = site.sparePort + 1;
    const scraping = setInterval(() => {
      if (isScraped) void fetch(`http://127.0.0.1:${scraped}/metrics`).then((page) => page.arrayBuffer());
    }, 1000);
    await both();
    const [without = Number.NaN, including = Number.NaN] = await both();
    clearInterval(scraping);
    ratios.push(including / without);
    for (const { started } of gateways) await started.stop();
  }
  return ratios;
}

/** The number of requests. */
async function loaded(site: Site, port: number): Promise<number> {
  const directory = join(site.directory, String(port));
  await mkdir(directory, { recursive: true });
  const load = { directory, port, body: requestBody, connections: 16, seconds: warmUpSeconds };
  const { requests, failures } = await runWrk(load);
  if (failures > 0) throw new Error(`${failures} of ${requests} requests failed`);
  return requests;
}
