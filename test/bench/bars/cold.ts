import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../../support/until.ts";
import { atMost, figure, median, range, told, type Bar, type Bench, type Result } from "../bar.ts";
import { befallen, loadStreams } from "../machine/load.ts";
import { startProgram } from "../machine/process.ts";
import { engineCommand, openSite, type Site } from "../machine/site.ts";

const callers = 100;
const trials = 7;
const loadMs = 300;

/** Callers of a slot that has to be loaded first. */
export const cold: Bar = {
  name: "cold",
  about: `${callers} callers of one cold slot, and what one cold request costs`,
  async run(bench) {
    await using site = await openSite();
    const names = ["same", "other", ...Array.from({ length: trials }, (_, trial) => `lone${trial}`)];
    for (const name of names) {
      await site.slot(name, {
        load: "onDemand",
        model: { default: `fixed-${name}` },
        command: engineCommand("--load-ms", String(loadMs), "--stamp", join(site.directory, name)),
      });
    }
    await site.operator();
    for (const name of names) await site.state(name, "offline");
    await site.gateway();
    return [
      ...(await together(site, "same", true)),
      ...(await together(site, "other", false)),
      ...(await alone(bench, site)),
    ];
  },
};

async function together(site: Site, name: string, areIdentical: boolean): Promise<Result[]> {
  const result = await loadStreams(site.gatewayPort, {
    streams: callers,
    model: name,
    expectModel: name,
    areIdentical,
    rampMs: 0,
    events: 32,
  });
  const what = `${callers} ${areIdentical ? "identical" : "different"} cold streams`;
  const [loads, calls] = [await loadsOf(site, name), await callsOf(site, name)];
  const isWhole = result.whole === callers;
  return [
    { bar: `${what}: cut or refused`, measured: befallen(result, callers), target: "none", isMet: isWhole },
    { bar: `${what}: loads`, measured: String(loads), target: "1", isMet: loads === 1 },
    ...(areIdentical
      ? [
          { bar: `${what}: calls to the engine`, measured: String(calls), target: "1", isMet: calls === 1 },
          isWhole
            ? atMost(`${what}: last first byte after the first`, spreadMs(result), 20, " ms")
            : { bar: `${what}: last first byte after the first`, measured: "–", target: "≤ 20 ms", isMet: false },
        ]
      : []),
  ];
}

function spreadMs({ firstByteUs, lastFirstByteUs }: { firstByteUs: number; lastFirstByteUs: number }): number {
  return (lastFirstByteUs - firstByteUs) / 1000;
}

/** Engines that were started for the slot, by their own account. */
async function loadsOf(site: Site, name: string): Promise<number> {
  const stamps = await readFile(join(site.directory, name), "utf8").catch(() => "");
  return stamps.split("\n").filter((line) => line.startsWith("started")).length;
}

async function callsOf(site: Site, name: string): Promise<number> {
  const port = (await site.published(name))?.status.processes[0]?.port;
  if (port === undefined) return 0;
  const calls: unknown = await (await fetch(`http://127.0.0.1:${port}/bench/calls`)).json();
  return typeof calls === "object" && calls !== null && "streams" in calls ? Number(calls.streams) : 0;
}

/** One cold request against the same engine started by hand and asked as soon as it is healthy, in turn. */
async function alone(bench: Bench, site: Site): Promise<Result[]> {
  const through: number[] = [];
  const byHand: number[] = [];
  let refused = 0;
  for (let trial = 0; trial < trials; trial++) {
    byHand.push(await startedByHand(site));
    const began = performance.now();
    if ((await ask(site.gatewayPort, `lone${trial}`)) !== 200) refused += 1;
    through.push(performance.now() - began);
  }
  const added = through.map((ms, trial) => ms - (byHand[trial] ?? Number.NaN));
  bench.say(`cold request ${figure(median(through))} ms, engine by hand ${figure(median(byHand))} ms`);
  const bar = "cold request: over the engine's own start, load and answer";
  if (refused > 0) return [{ bar, measured: `${refused} of ${trials} refused`, target: "≤ 100 ms", isMet: false }];
  return [
    atMost(bar, median(added), 100, " ms", range(added)),
    told("cold request: in all", `${figure(median(through))} ms, of which the engine ${figure(median(byHand))} ms`),
  ];
}

async function startedByHand(site: Site): Promise<number> {
  const port = site.sparePort;
  const began = performance.now();
  await using _engine = startProgram(engineCommand("--load-ms", String(loadMs), "--port", String(port)), {
    logFile: join(site.directory, "by-hand.log"),
  });
  await until("the engine is healthy", async () => (await fetch(`http://127.0.0.1:${port}/health`)).ok);
  await ask(port, "fixed");
  return performance.now() - began;
}

async function ask(port: number, model: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", connection: "close" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  await answer.text();
  return answer.status;
}
