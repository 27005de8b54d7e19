import { setTimeout as delay } from "node:timers/promises";
import { HeapGauge } from "../machine/heap.ts";
import { atMost, figure, mebibyte, told, type Bar } from "../bar.ts";
import { loadMixed } from "../machine/load.ts";
import { engineCommand, openSite } from "../machine/site.ts";
import type { HeapSample } from "../programs/spec.ts";

const requests = 200_000;
const batches = 5;
const warmUp = 40_000;

/** What 200 000 requests of every kind leave behind. */
export const drift: Bar = {
  name: "drift",
  about: `memory over ${requests} mixed requests, errors and disconnects included`,
  async run(bench) {
    await using site = await openSite({ slotPorts: 1 });
    await site.slot("bench", {
      capabilities: ["chat", "embeddings"],
      model: { default: "fixed" },
      command: engineCommand(),
    });
    await site.operator();
    await site.state("bench", "ready");
    const gauge = new HeapGauge(site.directory);
    const { pid } = await site.gateway(gauge.options);
    const answers: Record<string, number> = {};
    const load = async (count: number): Promise<void> => {
      const spec = { port: site.gatewayPort, model: "bench", connections: 32, requests: count };
      const result = await loadMixed(spec);
      for (const [key, number] of Object.entries(result.answers)) answers[key] = (answers[key] ?? 0) + number;
    };
    const sample = async (): Promise<HeapSample> => {
      // What the last clients left is closed by then.
      await delay(1500);
      const last = await gauge.sample(pid);
      bench.say(
        `heap ${figure(last.heapUsed / mebibyte)} MiB, resident ${figure(last.rss / mebibyte)} MiB, ${JSON.stringify(last.resources)}`,
      );
      return last;
    };
    await load(warmUp);
    const first = await sample();
    let last = first;
    for (let batch = 0; batch < batches; batch++) {
      await load(requests / batches);
      last = await sample();
    }
    const growth = (key: "heapUsed" | "rss"): number => (last[key] / first[key] - 1) * 100;
    const failed = Object.entries(answers).filter(([key]) => / (5\d\d|closed|error|NaN|0)$/.test(key));
    return [
      atMost(
        `${requests} mixed requests: heap`,
        growth("heapUsed"),
        5,
        " %",
        ` (${mib(first.heapUsed)} → ${mib(last.heapUsed)})`,
      ),
      atMost(
        `${requests} mixed requests: resident memory`,
        growth("rss"),
        5,
        " %",
        ` (${mib(first.rss)} → ${mib(last.rss)})`,
      ),
      atMost(`${requests} mixed requests: sockets and timers left`, handles(last) - handles(first), 0, ""),
      {
        bar: `${requests} mixed requests: failed`,
        measured: failed.length === 0 ? "none" : failed.map(([key, count]) => `${count}× ${key}`).join(", "),
        target: "none",
        isMet: failed.length === 0,
      },
      told("answers", summary(answers)),
    ];
  },
};

function mib(bytes: number): string {
  return `${figure(bytes / mebibyte)} MiB`;
}

/** Kept-alive connections to the engine are meant to stay; they are closed by their own idle time. */
function handles({ resources }: HeapSample): number {
  return Object.values(resources).reduce((sum, count) => sum + count, 0);
}

function summary(answers: Readonly<Record<string, number>>): string {
  const byStatus: Record<string, number> = {};
  for (const [key, count] of Object.entries(answers)) {
    const status = key.slice(key.lastIndexOf(" ") + 1);
    byStatus[status] = (byStatus[status] ?? 0) + count;
  }
  return Object.entries(byStatus)
    .map(([status, count]) => `${status}: ${count}`)
    .join(", ");
}
