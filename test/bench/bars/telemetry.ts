import { createServer } from "node:http";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { listen } from "../../support/listen.ts";
import { atLeast, figure, median, range, told, type Bar } from "../bar.ts";
import { cpuSeconds } from "../machine/cpu.ts";
import { nginxEngine } from "../machine/nginx.ts";
import { runProgram } from "../machine/process.ts";
import { openSite } from "../machine/site.ts";
import { runWrk } from "../machine/wrk.ts";
import { requestBody, warmUpSeconds } from "./chat.ts";

const partsProgram = fileURLToPath(new URL("../programs/telemetry-parts.ts", import.meta.url));

/** At each of the two gateways that are loaded at the same time. */
const connections = 16;
const seconds = 3;
const turnsPerRound = 3;

interface Step {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  readonly isScraped?: boolean;
  readonly hasBar: boolean;
}

/** From the third on, each has all of those before it, too. */
function stepsFor(receiverUrl: string): readonly Step[] {
  const log = { SVC_LOG_LEVEL: "info" };
  const bodies = { ...log, SVC_REQUEST_BODIES: "1" };
  const traces = { ...bodies, SVC_TRACES_ENDPOINT: receiverUrl };
  return [
    { name: "nothing, in a second process", env: {}, hasBar: false },
    { name: "a scrape a second", env: {}, isScraped: true, hasBar: true },
    { name: "+ access log in a file", env: log, isScraped: true, hasBar: true },
    { name: "+ bodies in /api/requests", env: bodies, isScraped: true, hasBar: true },
    { name: "+ traces, the part that is the default", env: traces, isScraped: true, hasBar: true },
    { name: "+ traces of all requests", env: { ...traces, SVC_TRACES_PART: "1" }, isScraped: true, hasBar: false },
  ];
}

interface Gateway {
  readonly port: number;
  readonly pid: number;
  readonly isScraped: boolean;
}

interface Pair {
  readonly added: number[];
  readonly ratios: number[];
}

/**
 * Warm chat through the gateway of each step of telemetry and through one without telemetry, before the same engine. Both are
 * started, warmed and loaded at the same time: the speed of a shared machine changes by half within seconds, and a change hits
 * both; and V8 optimises a process further with every 100,000 requests, so that the one with more behind it would be faster.
 * The CPU of a gateway is what bounds its throughput, so the ratio is that of requests per second of CPU. What is left of chance
 * shows in `nothing, in a second process`; every round starts new processes.
 */
export const telemetry: Bar = {
  name: "telemetry",
  about: "requests per CPU second of warm chat with more and more telemetry on, against off",
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
    /** CPU of the gateway for one request, in microseconds. */
    const load = async ({ port, pid, isScraped }: Gateway, forSeconds: number): Promise<number> => {
      const scrape = async (): Promise<unknown> => (await fetch(`http://127.0.0.1:${port}/metrics`)).arrayBuffer();
      const scraping = isScraped ? setInterval(() => void scrape(), 1000) : undefined;
      const before = cpuSeconds(pid);
      const { requests, failures } = await runWrk({
        directory: join(site.directory, String(port)),
        port,
        body: requestBody,
        connections,
        seconds: forSeconds,
      });
      clearInterval(scraping);
      if (failures > 0) throw new Error(`${failures} of ${requests} requests failed`);
      return ((cpuSeconds(pid) - before) / requests) * 1e6;
    };
    const off: number[] = [];
    const pairs = new Map<Step, Pair>();
    const steps = stepsFor(receiverUrl);
    for (let round = 0; round < bench.rounds; round += 1) {
      for (const step of steps) {
        const pair = pairs.get(step) ?? { added: [], ratios: [] };
        pairs.set(step, pair);
        const [without, other] = await Promise.all(
          [{}, step.env].map(async (env, nth) => {
            const port = site.sparePort + nth;
            await mkdir(join(site.directory, String(port)), { recursive: true });
            const started = await site.gateway({ port, env });
            return { started, port, pid: started.pid, isScraped: nth === 1 && step.isScraped === true };
          }),
        );
        if (without === undefined || other === undefined) throw new Error("no two gateways");
        const both = (forSeconds: number) => Promise.all([load(without, forSeconds), load(other, forSeconds)]);
        await both(warmUpSeconds);
        for (let turn = 0; turn < turnsPerRound; turn += 1) {
          const [base, micros] = await both(seconds);
          bench.say(`${step.name}: ${micros.toFixed(1)} µs CPU, nothing: ${base.toFixed(1)}`);
          pair.added.push(micros - base);
          pair.ratios.push(base / micros);
          off.push(base);
        }
        for (const { started } of [without, other]) await started.stop();
      }
    }
    receiver.close();
    const alone = await runProgram([process.execPath, "--disable-warning=ExperimentalWarning", partsProgram]);
    const results = [...pairs].flatMap(([{ name, hasBar }, { added, ratios }]) => {
      const ratio = `requests per CPU second, ${name}, of nothing's`;
      return [
        told(`CPU per request, ${name}`, `${figure(median(added))} µs more${range(added)}`),
        // The bar is for the settings that are the defaults of what is switched on.
        hasBar
          ? atLeast(ratio, median(ratios), 0.97, "×", range(ratios))
          : told(ratio, `${figure(median(ratios))}×${range(ratios)}`),
      ];
    });
    return [
      told("CPU per request, nothing", `${figure(median(off))} µs${range(off)}`),
      ...results,
      told("CPU per request of each part alone, in a loop", `${alone.trim()} µs`),
    ];
  },
};
