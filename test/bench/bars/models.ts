import { mkdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isRecord } from "../../../src/lib/record.ts";
import { ggufBytes } from "../../support/gguf.ts";
import { until } from "../../support/until.ts";
import { atMost, median, range, told, figure, type Bar } from "../bar.ts";
import { openSite } from "../machine/site.ts";

const count = 5000;
const lists = 15;
const changed = 10;

/** A models directory with many files: the list over the API, a first scan, and one after a few changes. */
export const models: Bar = {
  name: "models",
  about: `${count} models: the list, a scan, and a scan after ${changed} changes`,
  async run(bench) {
    await using site = await openSite();
    const root = join(site.directory, "models");
    const bytes = ggufBytes({ metadata: { "general.architecture": { text: "llama" } }, dataBytes: 4096 });
    const paths = Array.from({ length: count }, (_, index) => join(root, `d${index % 50}`, `model-${index}.gguf`));
    for (let index = 0; index < 50; index++) await mkdir(join(root, `d${index}`), { recursive: true });
    for (const path of paths) await writeFile(path, bytes);
    await site.operator();
    await site.gateway();
    const url = (path: string): string => `http://127.0.0.1:${site.gatewayPort}${path}`;
    const list = async (): Promise<[ms: number, found: number]> => {
      const began = performance.now();
      const text = await (await fetch(url("/api/models"))).text();
      const ms = performance.now() - began;
      const body: unknown = JSON.parse(text);
      return [ms, isRecord(body) && Array.isArray(body["data"]) ? body["data"].length : 0];
    };
    const began = performance.now();
    await until("every model is listed", async () => (await list())[1] === count, 60_000);
    bench.say(`listed ${Math.round(performance.now() - began)} ms after the start of the gateway`);
    const listed: number[] = [];
    for (let index = 0; index < lists; index++) listed.push((await list())[0]);
    const scan = async (): Promise<number> => {
      const start = performance.now();
      const response = await fetch(url("/api/models/scan"), {
        method: "POST",
        body: "{}",
        headers: { "content-type": "application/json" },
      });
      const text = await response.text();
      if (!response.ok) throw new Error(text.slice(0, 300));
      return (performance.now() - start) / 1000;
    };
    const first = await scan();
    const again: number[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      const soon = new Date(Date.now() + 1000 * (round + 1));
      for (const path of paths.slice(0, changed)) await utimes(path, soon, soon);
      again.push(await scan());
    }
    return [
      atMost(`list of ${count} models`, median(listed), 50, " ms", range(listed)),
      atMost(`scan of ${count} files`, first, 5, " s"),
      told(`scan after ${changed} of them changed`, `${figure(median(again))} s${range(again)}`),
    ];
  },
};
