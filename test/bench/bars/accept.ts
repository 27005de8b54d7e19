import { atLeast, atMost, figure, median, range, told, type Bar, type Bench, type Result } from "../bar.ts";
import { befallen, loadStreams } from "../machine/load.ts";
import { openStage, type Stage } from "../machine/stage.ts";
import type { StreamsResult } from "../programs/spec.ts";

/** Events of 20 ms each: as long as the last client may need to come in beside the first. */
const events = 200;

/** Clients that all connect in the same moment: each wants its first event soon, whoever came before it. */
export const accept: Bar = {
  name: "accept",
  about: "1000 and 256 streams whose clients connect at once, to the first event, against nginx",
  async run(bench) {
    await using stage = await openStage({ engine: "streams" });
    // Both proxies are warm then: as many connections to the engine are kept as the largest round needs.
    await measured(bench, stage, 1000, 1);
    const results: Result[] = [];
    for (const [count, limit] of [
      [1000, 2],
      [256, 3],
    ] as const) {
      results.push(...judged(count, limit, await measured(bench, stage, count, bench.rounds)));
    }
    return results;
  },
};

interface Pair {
  readonly nginx: StreamsResult;
  readonly berth: StreamsResult;
}

async function measured(bench: Bench, stage: Stage, count: number, times: number): Promise<readonly Pair[]> {
  const pairs: Pair[] = [];
  const spec = { streams: count, events, rampMs: undefined };
  for (let time = 0; time < times; time++) {
    const nginx = await loadStreams(stage.nginxPort, { ...spec, expectModel: "fixed" });
    const berth = await loadStreams(stage.site.gatewayPort, spec);
    bench.say(`${count} at once, first event p50 / p99: nginx ${firstEvent(nginx)}, berth ${firstEvent(berth)}`);
    pairs.push({ nginx, berth });
  }
  return pairs;
}

function judged(count: number, limit: number, pairs: readonly Pair[]): Result[] {
  const what = `${count} streams at once`;
  const ratios = pairs.map(({ berth, nginx }) => berth.firstEvent.p99 / nginx.firstEvent.p99);
  const bad = pairs.map(({ berth }) => berth).find(({ whole }) => whole < count);
  return [
    atMost(`${what}: first event p99, of nginx's`, median(ratios), limit, "×", range(ratios)),
    atLeast(`${what}: open at one time`, Math.min(...pairs.map(({ berth }) => berth.mostOpen)), count, ""),
    {
      bar: `${what}: cut, or with a wrong byte`,
      measured: bad === undefined ? "none" : befallen(bad, count),
      target: "none",
      isMet: bad === undefined,
    },
    told(
      `${what}: first event p50 / p99`,
      `berth ${middle(pairs.map(({ berth }) => berth))}, nginx ${middle(pairs.map(({ nginx }) => nginx))}`,
    ),
  ];
}

function middle(all: readonly StreamsResult[]): string {
  const of = (key: "p50" | "p99"): string => figure(median(all.map((each) => each.firstEvent[key])) / 1000);
  return `${of("p50")} / ${of("p99")} ms`;
}

function firstEvent(result: StreamsResult): string {
  const { p50, p99, max } = result.firstEvent;
  return `${figure(p50 / 1000)} / ${figure(p99 / 1000)} ms (max ${figure(max / 1000)}, ${result.mostOpen} open)`;
}
