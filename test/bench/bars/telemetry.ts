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
  ["a scrape a second", {}],
  ["+ access log in a file", { SVC_LOG_LEVEL: "info" }],
  ["+ bodies in /api/requests", { SVC_REQUEST_BODIES: "1" }],
  ["+ traces, the part that is the default", { SVC_TRACES_ENDPOINT: "" }],
  ["+ traces of all requests", { SVC_TRACES_ENDPOINT: "", SVC_TRACES_PART: "1" }],
];

/** Warm chat through one gateway for each step of telemetry, in turn, before the same engine. */
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
    const env: Record<string, string> = {};
    const sides: { name: string; port: number; pid: number; rates: number[]; cpu: number[] }[] = [];
    for (const [nth, [name, more]] of steps.entries()) {
      Object.assign(env, more);
      if (env["SVC_TRACES_ENDPOINT"] !== undefined) env["SVC_TRACES_ENDPOINT"] = receiverUrl;
      const port = site.sparePort + nth;
      const { pid } = await site.gateway({ port, env: { ...env } });
      sides.push({ name, port, pid, rates: [], cpu: [] });
    }
    const load = (port: number, forSeconds: number) =>
      runWrk({ directory: site.directory, port, body: requestBody, connections, seconds: forSeconds });
    for (const { port } of sides) await load(port, warmUpSeconds);
    for (let turn = 0; turn < bench.rounds * turnsPerRound; turn += 1) {
      // There and back: a machine that becomes slower is as unkind to the first as to the last.
      for (const side of turn % 2 === 0 ? sides : sides.toReversed()) {
        const scraping = setInterval(() => {
          if (side !== sides[0]) void fetch(`http://127.0.0.1:${side.port}/metrics`).then((page) => page.arrayBuffer());
        }, 1000);
        const before = cpuSeconds(side.pid);
        const { perSecond, requests, failures } = await load(side.port, seconds);
        clearInterval(scraping);
        if (failures > 0) throw new Error(`${failures} of ${requests} requests failed`);
        const micros = ((cpuSeconds(side.pid) - before) / requests) * 1e6;
        bench.say(`${side.name}: ${Math.round(perSecond)}/s, ${micros.toFixed(1)} µs CPU`);
        side.rates.push(perSecond);
        side.cpu.push(micros);
      }
    }
    receiver.close();
    const [off] = sides;
    const alone = await runProgram([process.execPath, "--disable-warning=ExperimentalWarning", partsProgram]);
    const parts = told("CPU per request of each part alone, in a loop", `${alone.trim()} µs`);
    const results = sides.flatMap((side, nth) => {
      const ratios = side.rates.map((rate, turn) => rate / (off?.rates[turn] ?? Number.NaN));
      const added = side.cpu.map((micros, turn) => micros - (off?.cpu[turn] ?? Number.NaN));
      const cpu = told(
        `CPU per request, ${side.name}`,
        `${figure(median(side.cpu))} µs${side === off ? "" : `; added: ${figure(median(added))}`}`,
      );
      const name = `throughput, ${side.name}, of nothing's`;
      // The bar is for the settings that are the defaults of what is switched on.
      return side === off
        ? [cpu]
        : [
            cpu,
            nth < sides.length - 1
              ? atLeast(name, median(ratios), 0.97, "×", range(ratios))
              : told(name, `${figure(median(ratios))}×`),
          ];
    });
    return [...results, parts];
  },
};
