import { createServer } from "node:http";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { listen } from "../../support/listen.ts";
import { atLeast, figure, median, range, told, trimmedMean, type Bar, type Bench, type Result } from "../bar.ts";
import { cpuSeconds } from "../machine/cpu.ts";
import { nginxEngine } from "../machine/nginx.ts";
import { runProgram } from "../machine/process.ts";
import { openSite, type Site } from "../machine/site.ts";
import { TelemetrySwitch } from "../machine/telemetry-switch.ts";
import { runWrk } from "../machine/wrk.ts";
import type { SwitchedPart, SwitchPair } from "../programs/spec.ts";
import { requestBody, warmUpSeconds } from "./chat.ts";

const partsProgram = fileURLToPath(new URL("../programs/telemetry-parts.ts", import.meta.url));

const limit = 0.97;
/** Requests of each side of a pair: so few that the machine's speed changes little meanwhile. */
const requests = 300;
const pairsPerTrial = 25;
const trialsPerRound = 4;
const scrapes = 25;

interface Step {
  readonly name: string;
  readonly off: readonly SwitchedPart[];
  readonly on: readonly SwitchedPart[];
  readonly hasBar: boolean;
}

const list = ["list"] as const;
const all: Step = { name: "all of these", off: list, on: ["list", "log", "bodies", "traces"], hasBar: true };
/** Off is a gateway that was told nothing: it keeps the list of the last requests, and has metrics that nobody reads. */
const steps: readonly Step[] = [
  { name: "nothing", off: list, on: list, hasBar: false },
  { name: "the list of /api/requests (always on)", off: [], on: list, hasBar: false },
  { name: "access log in a file", off: list, on: ["list", "log"], hasBar: true },
  { name: "bodies in /api/requests", off: list, on: ["list", "bodies"], hasBar: true },
  { name: "traces, the part that is the default", off: list, on: ["list", "traces"], hasBar: true },
  all,
  { name: "traces of all requests", off: list, on: ["list", "traces", "all traces"], hasBar: false },
];

/**
 * Processor time of a warm chat request with parts of telemetry off and on in turn, in one gateway: two processes differ by
 * 4 % and more, since V8 optimises each of them in its own way, and the speed of a shared machine changes by half within
 * seconds. What is left of chance is told with each figure, and shows in `nothing`. The processor time of a gateway is what
 * bounds its throughput, so the ratio is that of requests for a second of it.
 */
export const telemetry: Bar = {
  name: "telemetry",
  about: "processor time of warm chat with telemetry on, against off",
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
    const env = { SVC_LOG_LEVEL: "info", SVC_REQUEST_BODIES: "1", SVC_TRACES_ENDPOINT: receiverUrl };
    const results = [...(await inOneGateway(bench, site, env)), ...(await inTwoGateways(bench, site, env))];
    receiver.close();
    const alone = await runProgram([process.execPath, "--disable-warning=ExperimentalWarning", partsProgram]);
    return [...results, told("CPU per request of each part alone, in a loop", `${alone.trim()} µs`)];
  },
};

async function inOneGateway(bench: Bench, site: Site, env: Readonly<Record<string, string>>): Promise<Result[]> {
  await using parts = new TelemetrySwitch(site.directory);
  await parts.listen();
  const { nodeFlags } = parts.options;
  const gateway = await site.gateway({ nodeFlags, env: { ...env, ...parts.options.env } });
  const load = (seconds: number) => loadedBy(site, site.gatewayPort, 32, seconds);
  await load(warmUpSeconds);
  const scrapeSeconds = await cpuOfScrape(site.gatewayPort, gateway.pid);
  const ofScrape = 1 - scrapeSeconds;
  const results: Result[] = [
    told("CPU of a scrape", `${figure(scrapeSeconds * 1000)} ms`),
    atLeast("requests per CPU second, a scrape a second, of nothing's", ofScrape, limit, "×"),
  ];
  for (const { name, off, on, hasBar } of steps) {
    const pairs: SwitchPair[] = [];
    let isLoaded = true;
    const loading = (async () => {
      while (isLoaded) await load(1);
    })();
    for (let trial = 0; trial < bench.rounds * trialsPerRound; trial += 1)
      pairs.push(...(await parts.compare({ off, on, requests, pairs: pairsPerTrial })));
    isLoaded = false;
    await loading;
    const base = trimmedMean(pairs.map((pair) => pair.off)).mean;
    const added = trimmedMean(pairs.map((pair) => pair.on - pair.off));
    const more = `${figure(added.mean)} ± ${figure(added.error)} µs more`;
    const ratio = (base / (base + added.mean)) * (on === all.on ? ofScrape : 1);
    const chance = ` ± ${figure(added.error / base)}`;
    bench.say(`${name}: ${more} than ${figure(base)}, ${figure(ratio)}×`);
    const title = `requests per CPU second, ${on === all.on ? "all of these and a scrape" : name}, of nothing's`;
    results.push(
      told(`CPU per request, ${name}`, `${more} (nothing: ${figure(base)})`),
      hasBar ? atLeast(title, ratio, limit, "×", chance) : told(title, `${figure(ratio)}×${chance}`),
    );
  }
  await gateway.stop();
  return results;
}

/** In seconds, at a gateway that does nothing else. */
async function cpuOfScrape(port: number, pid: number): Promise<number> {
  const before = cpuSeconds(pid);
  for (let nth = 0; nth < scrapes; nth += 1) await (await fetch(`http://127.0.0.1:${port}/metrics`)).arrayBuffer();
  return (cpuSeconds(pid) - before) / scrapes;
}

/** Whole processes, loaded at the same time: by this the figures of one process can be doubted. */
async function inTwoGateways(bench: Bench, site: Site, env: Readonly<Record<string, string>>): Promise<Result[]> {
  const ratios: Record<"nothing" | "all of these", number[]> = { nothing: [], "all of these": [] };
  for (let round = 0; round < bench.rounds; round += 1) {
    for (const [name, found] of Object.entries(ratios)) {
      const gateways = await Promise.all(
        [{}, name === "nothing" ? {} : env].map(async (own, nth) => {
          const port = site.sparePort + nth;
          await mkdir(join(site.directory, String(port)), { recursive: true });
          return { port, started: await site.gateway({ port, env: own }) };
        }),
      );
      const both = (seconds: number): Promise<number[]> =>
        Promise.all(
          gateways.map(async ({ port, started: { pid } }) => {
            const before = cpuSeconds(pid);
            const served = await loadedBy(site, port, 16, seconds);
            return (cpuSeconds(pid) - before) / served;
          }),
        );
      await both(warmUpSeconds);
      const [off = Number.NaN, on = Number.NaN] = await both(warmUpSeconds);
      found.push(off / on);
      for (const { started } of gateways) await started.stop();
    }
  }
  return Object.entries(ratios).map(([name, found]) =>
    told(
      `requests per CPU second in another process, ${name}, of nothing's`,
      `${figure(median(found))}×${range(found)}`,
    ),
  );
}

/** The number of its requests. */
async function loadedBy(site: Site, port: number, connections: number, seconds: number): Promise<number> {
  const directory = port === site.gatewayPort ? site.directory : join(site.directory, String(port));
  const { requests: count, failures } = await runWrk({ directory, port, body: requestBody, connections, seconds });
  if (failures > 0) throw new Error(`${failures} of ${count} requests failed`);
  return count;
}
