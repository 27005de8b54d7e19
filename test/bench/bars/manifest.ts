import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { until } from "../../support/until.ts";
import { atMost, figure, median, quantile, told, type Bar } from "../bar.ts";
import { engineCommand, openSite, type Site } from "../machine/site.ts";
import { monotonicUs } from "../programs/wire.ts";

const slots = 200;
const running = 4;
const edits = 120;

/** From the end of a save to the signal that the engine gets: the first thing that an edit does to the world. */
export const manifest: Bar = {
  name: "manifest",
  about: `from a saved manifest to the engine's restart, ${slots} slots`,
  async run(bench) {
    await using site = await openSite();
    const stampOf = (index: number): string => join(site.directory, `stamp${index}`);
    const save = (index: number, more: object): Promise<void> =>
      site.slot(`run${index}`, { command: engineCommand("--stamp", stampOf(index)), ...more });
    for (let index = 0; index < running; index++) await save(index, {});
    for (let index = running; index < slots; index++)
      await site.slot(`rest${index}`, { load: "onDemand", command: engineCommand() });
    await site.operator();
    for (let index = 0; index < running; index++) await site.state(`run${index}`, "ready");
    // The engine gets its signal after the gateway has no more requests at it.
    await site.gateway();
    const delays: number[] = [];
    for (let edit = 0; edit < edits; edit++) {
      const index = edit % running;
      const before = (await site.state(`run${index}`, "ready")).generation;
      const terms = await termsIn(stampOf(index));
      await save(index, { env: { EDIT: String(edit) } });
      const savedUs = monotonicUs();
      const term = await until(`run${index} is told to end`, async () => (await termsIn(stampOf(index)))[terms.length]);
      delays.push((term - savedUs) / 1000);
      await until(`run${index} is new`, async () => {
        const found = await site.published(`run${index}`);
        return found !== undefined && found.generation > before && found.status.processes.length > 0;
      });
    }
    for (let index = 0; index < running; index++) await site.state(`run${index}`, "ready");
    // Until what the restarts left to look at again has been looked at.
    await delay(2000);
    const looks: number[] = [];
    for (let edit = 0; edit < 9; edit++) {
      const before = await reconciles(site);
      await save(edit % running, {
        env: { EDIT: String(edits - running + (edit % running)) },
        idleSeconds: 600 + edit,
      });
      await delay(400);
      looks.push((await reconciles(site)) - before);
    }
    bench.say(`reconciles by an edit: ${looks.join()}`);
    return [
      atMost(
        "manifest saved → engine told: p99",
        quantile(delays, 0.99),
        150,
        " ms",
        ` (p50 ${figure(median(delays))})`,
      ),
      atMost(`reconciles by an edit of one of ${slots} slots that restarts nothing`, median(looks), 2, ""),
      told("manifest saved → engine told: longest", `${figure(Math.max(...delays))} ms of ${delays.length}`),
    ];
  },
};

/** The times at which the engines of the file got the signal to end, µs of the shared clock. */
async function termsIn(file: string): Promise<number[]> {
  const lines = (await readFile(file, "utf8").catch(() => "")).split("\n");
  return lines.filter((line) => line.startsWith("term ")).map((line) => Number(line.slice(5)));
}

async function reconciles(site: Site): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${site.operatorPort}/metrics`)).text();
  return page
    .split("\n")
    .filter((line) => line.startsWith('berth_reconcile_total{kind="Slot"'))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}
