import { atMost, figure, mebibyte, median, range, told, type Bar, type Bench, type Result } from "../bar.ts";
import { cpuSeconds, peakBytes, residentBytes, resetPeak } from "../machine/cpu.ts";
import { befallen, loadStreams } from "../machine/load.ts";
import { openStage, type Stage } from "../machine/stage.ts";
import type { Spread, StreamsResult } from "../programs/spec.ts";

const many = 1000;

interface Rounds {
  readonly berth: StreamsResult[];
  readonly nginx: StreamsResult[];
  /** Rounds of an earlier commit; empty unless one is measured. */
  readonly pinned: StreamsResult[];
}

/** Many event streams at once: whole, byte-exact, on time and within memory. */
export const streams: Bar = {
  name: "streams",
  about: "1000 event streams of 64 events at 20 ms, against nginx",
  async run(bench) {
    await using stage = await openStage({ engine: "streams", against: bench.against });
    const pid = stage.gateway.pid;
    await compare(bench, stage, 200, 1);
    resetPeak(pid);
    const first = await compare(bench, stage, many, 1);
    const firstPeak = peakBytes(pid);
    const firstResident = residentBytes(pid);
    resetPeak(pid);
    const second = await compare(bench, stage, many, 1);
    const growth = (Math.max(peakBytes(pid) / firstPeak, residentBytes(pid) / firstResident) - 1) * 100;
    const more = await compare(bench, stage, many, Math.max(1, bench.rounds - 2));
    const rounds = [first, second, more];
    const direct = await loadStreams(stage.enginePort, { streams: many, model: "fixed", expectModel: "fixed" });
    bench.say(`direct: ${delays(direct.delay)}`);
    const all = rounds.flatMap(({ berth }) => berth);
    const bad = all.find((result) => result.whole < many);
    return [
      {
        bar: `${many} streams: cut, or with a wrong byte`,
        measured: bad === undefined ? "none" : befallen(bad, many),
        target: "none",
        isMet: bad === undefined,
      },
      ...against(`${many} streams`, rounds, [undefined, 2.5]),
      told(`${many} streams: relay delay without a proxy, p50 / p99`, delays(direct.delay)),
      atMost(`${many} streams: largest resident memory`, peakBytes(pid) / mebibyte, 200, " MiB"),
      atMost(`${many} streams: growth by a second round`, growth, 10, " %"),
      ...(await calm(bench, stage)),
    ];
  },
};

/** As many streams as keep nginx busy for 30 % of a core: delays without the machine being full. */
async function calm(bench: Bench, stage: Stage): Promise<Result[]> {
  const probe = 200;
  const before = cpuSeconds(stage.nginx.pid);
  const began = performance.now();
  await loadStreams(stage.nginxPort, { streams: probe, events: 150, expectModel: "fixed" });
  const share = ((cpuSeconds(stage.nginx.pid) - before) / (performance.now() - began)) * 1000;
  const count = Math.max(20, Math.min(many, Math.round((probe * 0.3) / Math.max(share, 0.01))));
  const rounds = [await compare(bench, stage, count, bench.rounds, 150)];
  const what = `${count} streams (nginx at 30 % of a core)`;
  return [...against(what, rounds, [2, 2]), ...beside(what, rounds, stage.pinned?.name)];
}

async function compare(bench: Bench, stage: Stage, count: number, times: number, events = 64): Promise<Rounds> {
  const rounds: Rounds = { berth: [], nginx: [], pinned: [] };
  for (let time = 0; time < times; time++) {
    const nginx = await loadStreams(stage.nginxPort, { streams: count, events, expectModel: "fixed" });
    const berth = await loadStreams(stage.site.gatewayPort, { streams: count, events });
    if (nginx.whole < count) bench.say(`nginx: ${befallen(nginx, count)}`);
    if (berth.whole < count) bench.say(`berth: ${befallen(berth, count)}`);
    bench.say(`${count} streams: nginx ${delays(nginx.delay)}, berth ${delays(berth.delay)}`);
    rounds.nginx.push(nginx);
    rounds.berth.push(berth);
    if (stage.pinned === undefined) continue;
    const pinned = await loadStreams(stage.pinned.site.gatewayPort, { streams: count, events });
    bench.say(`${count} streams: ${stage.pinned.name} ${delays(pinned.delay)}`);
    rounds.pinned.push(pinned);
  }
  return rounds;
}

function against(
  what: string,
  rounds: readonly Rounds[],
  [p50Limit, p99Limit]: [number | undefined, number],
): Result[] {
  const berth = rounds.flatMap((each) => each.berth.map(({ delay }) => delay));
  const nginx = rounds.flatMap((each) => each.nginx.map(({ delay }) => delay));
  const ratios = (key: "p50" | "p99"): number[] =>
    berth.map((delay, index) => delay[key] / (nginx[index]?.[key] ?? Number.NaN));
  const result = (key: "p50" | "p99", limit: number): Result =>
    atMost(`${what}: relay delay ${key}, of nginx's`, median(ratios(key)), limit, "×", range(ratios(key)));
  const middle = (all: readonly Spread[], key: "p50" | "p99"): string =>
    figure(median(all.map((delay) => delay[key])) / 1000);
  return [
    ...(p50Limit === undefined ? [] : [result("p50", p50Limit)]),
    result("p99", p99Limit),
    told(
      `${what}: relay delay p50 / p99`,
      `berth ${middle(berth, "p50")} / ${middle(berth, "p99")} ms, nginx ${middle(nginx, "p50")} / ${middle(nginx, "p99")} ms`,
    ),
  ];
}

/** Delays beside those of an earlier commit, by pairs of neighbouring runs. */
function beside(what: string, rounds: readonly Rounds[], name: string | undefined): Result[] {
  const pairs = rounds.flatMap(({ berth, pinned }) =>
    pinned.map(({ delay }, index) => ({ ours: berth[index]?.delay, theirs: delay })),
  );
  if (name === undefined || pairs.length === 0) return [];
  return (["p50", "p99"] as const).map((key) => {
    const ratios = pairs.map(({ ours, theirs }) => (ours?.[key] ?? Number.NaN) / theirs[key]);
    return atMost(`${what}: relay delay ${key}, of ${name}'s`, median(ratios), 1.1, "×", range(ratios));
  });
}

function delays({ p50, p99 }: Spread): string {
  return `${figure(p50 / 1000)} / ${figure(p99 / 1000)} ms`;
}
