import { join } from "node:path";
import { until } from "../../support/until.ts";
import { atMost, figure, median, range, told, type Bar } from "../bar.ts";
import { startProgram } from "../machine/process.ts";
import { engineCommand, openSite, type Site } from "../machine/site.ts";

const trials = 7;
const loadFlags = ["--load-ms", "300"];

/** One cold request, and in turn the same engine started by hand and asked as soon as it is healthy. */
export const cold: Bar = {
  name: "cold",
  about: "what one cold request costs over the engine's own start",
  async run(bench) {
    await using site = await openSite();
    const names = Array.from({ length: trials }, (_, trial) => `lone${trial}`);
    for (const name of names)
      await site.slot(name, {
        load: "onDemand",
        model: { default: `fixed-${name}` },
        command: engineCommand(...loadFlags),
      });
    await site.operator();
    for (const name of names) await site.state(name, "offline");
    await site.gateway();
    const through: number[] = [];
    const byHand: number[] = [];
    for (const name of names) {
      byHand.push(await startedByHand(site));
      const began = performance.now();
      await ask(site.gatewayPort, name);
      through.push(performance.now() - began);
    }
    const added = through.map((ms, trial) => ms - (byHand[trial] ?? Number.NaN));
    const whole = `${figure(median(through))} ms, of which the engine ${figure(median(byHand))} ms`;
    bench.say(`cold request ${whole}`);
    return [
      atMost("cold request: over the engine's own start, load and answer", median(added), 100, " ms", range(added)),
      told("cold request: in all", whole),
    ];
  },
};

async function startedByHand(site: Site): Promise<number> {
  const port = site.sparePort;
  const began = performance.now();
  await using _engine = startProgram(engineCommand(...loadFlags, "--port", String(port)), {
    logFile: join(site.directory, "by-hand.log"),
  });
  await until("the engine is healthy", async () => (await fetch(`http://127.0.0.1:${port}/health`)).ok);
  await ask(port, "fixed");
  return performance.now() - began;
}

async function ask(port: number, model: string): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", connection: "close" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${model} answered ${answer.status}: ${text}`);
}
