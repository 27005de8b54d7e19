import { createServer } from "node:http";
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

const connections = 32;
/** Short, and many of them: the speed of a shared machine changes within seconds. */
const seconds = 2;
const turnsPerRound = 4;

/** Each has all of the one before, too. */
const steps: readonly (readonly [name: string, env: Readonly<Record<string, string>>])[] = [
  ["nothing", {}],
  ["nothing, in a second process", {}],
  ["access log in a file", { SVC_LOG_LEVEL: "info" }],
  ["+ bodies in /api/requests", { SVC_REQUEST_BODIES: "1" }],
  ["+ traces, the part that is the default", { SVC_TRACES_ENDPOINT: "" }],
  ["+ traces of all requests", { SVC_TRACES_ENDPOINT: "", SVC_TRACES_PART: "1" }],
];

const scraped = "a scrape a second";
/** Without a bar. */
const withoutBar: ReadonlySet<string> = new Set(["nothing, in a second process", "+ traces of all requests"]);

interface Side {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  readonly isScraped: boolean;
}

interface Samples {
  readonly rates: number[];
  readonly cpu: number[];
}

/**
 * Warm chat through one gateway for each step of telemetry, in turn, before the same engine. A scrape a second is measured
 * at the gateway without telemetry: two processes differ by more than a scrape costs, since V8 optimises each of them in its
 * own way. That difference is told too, and every round starts new processes.
 */
export const telemetry: Bar = {
  name: "telemetry",
  about: "throughput and CPU of warm chat with more and more telemetry on, against off",
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
    const load = (port: number, forSeconds: number) =>
      runWrk({ directory: site.directory, port, body: requestBody, connections, seconds: forSeconds });
    const samples = new Map<string, Samples>();
    for (let round = 0; round < bench.rounds; round += 1) {
      const env: Record<string, string> = {};
      const gateways = await Promise.all(
        steps.map(async ([name, more], nth) => {
          Object.assign(env, more);
          if (env["SVC_TRACES_ENDPOINT"] !== undefined) env["SVC_TRACES_ENDPOINT"] = receiverUrl;
          const port = site.sparePort + nth;
          return { name, port, gateway: await site.gateway({ port, env: { ...env } }) };
        }),
      );
      for (const { port } of gateways) await load(port, warmUpSeconds);
      const sides: readonly Side[] = gateways.flatMap(({ name, port, gateway: { pid } }, nth): Side[] => {
        if (nth > 0) return [{ name, port, pid, isScraped: nth > 1 }];
        return [false, true].map((isScraped) => ({ name: isScraped ? scraped : name, port, pid, isScraped }));
      });
      for (let turn = 0; turn < turnsPerRound; turn += 1) {
        // There and back: a machine that becomes slower is as unkind to the first as to the last.
        for (const side of turn % 2 === 0 ? sides : sides.toReversed()) {
          const scraping = setInterval(() => {
            if (side.isScraped) void fetch(`http://127.0.0.1:${side.port}/metrics`).then((page) => page.arrayBuffer());
          }, 1000);
          const before = cpuSeconds(side.pid);
          const { perSecond, requests, failures } = await load(side.port, seconds);
          clearInterval(scraping);
          if (failures > 0) throw new Error(`${failures} of ${requests} requests failed`);
          const micros = ((cpuSeconds(side.pid) - before) / requests) * 1e6;
          bench.say(`${side.name}: ${Math.round(perSecond)}/s, ${micros.toFixed(1)} µs CPU`);
          const of = samples.get(side.name) ?? { rates: [], cpu: [] };
          of.rates.push(perSecond);
          of.cpu.push(micros);
          samples.set(side.name, of);
        }
      }
      for (const { gateway } of gateways) await gateway.stop();
    }
    receiver.close();
    const off = samples.get("nothing");
    const alone = await runProgram([process.execPath, "--disable-warning=ExperimentalWarning", partsProgram]);
    const parts = told("CPU per request of each part alone, in a loop", `${alone.trim()} µs`);
    const results = [...samples].flatMap(([name, { rates, cpu }]) => {
      const ratios = rates.map((rate, turn) => rate / (off?.rates[turn] ?? Number.NaN));
      const added = cpu.map((micros, turn) => micros - (off?.cpu[turn] ?? Number.NaN));
      const more = name === "nothing" ? "" : `; added: ${figure(median(added))}`;
      const result = told(`CPU per request, ${name}`, `${figure(median(cpu))} µs${more}`);
      if (name === "nothing") return [result];
      const ratio = `throughput, ${name}, of nothing's`;
      // The bar is for the settings that are the defaults of what is switched on.
      return withoutBar.has(name)
        ? [result, told(ratio, `${figure(median(ratios))}×${range(ratios)}`)]
        : [result, atLeast(ratio, median(ratios), 0.97, "×", range(ratios))];
    });
    return [...results, parts];
  },
};
