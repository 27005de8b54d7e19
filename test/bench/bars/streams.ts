import { atLeast, atMost, figure, mebibyte, median, range, told, type Bar, type Bench, type Result } from "../bar.ts";
import { cpuSeconds, peakBytes, residentBytes, resetPeak } from "../machine/cpu.ts";
import { befallen, loadStreams } from "../machine/load.ts";
import { openStage, type Stage } from "../machine/stage.ts";
import type { Spread, StreamsResult } from "../programs/spec.ts";

const many = 1000;
/** Events of a burst: as long as the last client may need to come in beside the first. */
const burstEvents = 200;

type Side = "nginx" | "berth" | "pinned";
type Rounds = Readonly<Record<Side, StreamsResult[]>>;
/** `delay`: from the engine's write to the client's read; `firstEvent`: from a client's connecting. */
type Measure = "delay" | "firstEvent";

/** Many event streams at once: whole, byte-exact, on time and within memory. */
export const streams: Bar = {
  name: "streams",
  about: "1000 event streams of 64 events at 20 ms, in turn and connecting at once, against nginx",
  async run(bench) {
    await using stage = await openStage({ engine: "streams", against: bench.against });
    const pid = stage.gateway.pid;
    await compare(bench, stage, { streams: 200 }, 1);
    resetPeak(pid);
    const first = await compare(bench, stage, { streams: many }, 1);
    const [firstPeak, firstResident] = [peakBytes(pid), residentBytes(pid)];
    resetPeak(pid);
    const more = await compare(bench, stage, { streams: many }, Math.max(2, bench.rounds - 1));
    const growth = (Math.max(peakBytes(pid) / firstPeak, residentBytes(pid) / firstResident) - 1) * 100;
    const all: Rounds = {
      nginx: [...first.nginx, ...more.nginx],
      berth: [...first.berth, ...more.berth],
      pinned: [...first.pinned, ...more.pinned],
    };
    const direct = await loadStreams(stage.enginePort, { streams: many, model: "fixed", expectModel: "fixed" });
    return [
      whole(`${many} streams`, all.berth, many),
      ofNginx(`${many} streams`, all, "delay", "p99", 2.5),
      inMs(`${many} streams`, all, "delay"),
      told(`${many} streams: relay delay without a proxy, p50 / p99`, milliseconds([direct], "delay")),
      atMost(`${many} streams: largest resident memory`, peakBytes(pid) / mebibyte, 200, " MiB"),
      atMost(`${many} streams: growth by further rounds`, growth, 10, " %"),
      ...(await calm(bench, stage)),
      ...(await burst(bench, stage)),
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
  const rounds = await compare(bench, stage, { streams: count, events: 150 }, bench.rounds);
  const what = `${count} streams (nginx at 30 % of a core)`;
  const name = stage.pinned?.name;
  return [
    ofNginx(what, rounds, "delay", "p50", 2),
    ofNginx(what, rounds, "delay", "p99", 2),
    inMs(what, rounds, "delay"),
    ...(name === undefined
      ? []
      : (["p50", "p99"] as const).map((key) => {
          const beside = ratios(rounds, "pinned", "delay", key);
          return atMost(`${what}: relay delay ${key}, of ${name}'s`, median(beside), 1.1, "×", range(beside));
        })),
  ];
}

/** Clients that all connect in the same moment: each wants its first event soon, whoever came before it. */
async function burst(bench: Bench, stage: Stage): Promise<Result[]> {
  const what = `${many} streams at once`;
  const spec = { streams: many, events: burstEvents, rampMs: undefined };
  // Both proxies are warm then: as many connections to the engine are kept as a round needs.
  await compare(bench, stage, spec, 1);
  const rounds = await compare(bench, stage, spec, bench.rounds);
  return [
    ofNginx(what, rounds, "firstEvent", "p99", 2),
    atLeast(`${what}: open at one time`, Math.min(...rounds.berth.map(({ mostOpen }) => mostOpen)), many, ""),
    whole(what, rounds.berth, many),
    inMs(what, rounds, "firstEvent"),
  ];
}

async function compare(
  bench: Bench,
  stage: Stage,
  spec: { readonly streams: number; readonly events?: number; readonly rampMs?: undefined },
  times: number,
): Promise<Rounds> {
  const rounds: Rounds = { nginx: [], berth: [], pinned: [] };
  const load = async (side: Side, port: number, expectModel: string): Promise<void> => {
    const result = await loadStreams(port, { ...spec, expectModel });
    rounds[side].push(result);
    const [delay, firstEvent] = [milliseconds([result], "delay"), milliseconds([result], "firstEvent")];
    bench.say(
      `${side}, ${spec.streams} streams: delay ${delay}, first event ${firstEvent}, lost: ${befallen(result, spec.streams)}`,
    );
  };
  for (let time = 0; time < times; time++) {
    await load("nginx", stage.nginxPort, "fixed");
    await load("berth", stage.site.gatewayPort, "bench");
    if (stage.pinned !== undefined) await load("pinned", stage.pinned.site.gatewayPort, "bench");
  }
  return rounds;
}

function whole(what: string, results: readonly StreamsResult[], count: number): Result {
  const bad = results.find((result) => result.whole < count);
  const measured = bad === undefined ? "none" : befallen(bad, count);
  return { bar: `${what}: cut, or with a wrong byte`, measured, target: "none", isMet: bad === undefined };
}

const words = { delay: "relay delay", firstEvent: "first event" } satisfies Record<Measure, string>;

function ofNginx(what: string, rounds: Rounds, measure: Measure, key: "p50" | "p99", limit: number): Result {
  const found = ratios(rounds, "nginx", measure, key);
  return atMost(`${what}: ${words[measure]} ${key}, of nginx's`, median(found), limit, "×", range(found));
}

/** Divides each run of Berth by the run of the other side that came right after it. */
function ratios(rounds: Rounds, other: Side, measure: Measure, key: keyof Spread): number[] {
  return rounds.berth.map((ours, index) => ours[measure][key] / (rounds[other][index]?.[measure][key] ?? Number.NaN));
}

function inMs(what: string, { berth, nginx }: Rounds, measure: Measure): Result {
  const figures = `berth ${milliseconds(berth, measure)}, nginx ${milliseconds(nginx, measure)}`;
  return told(`${what}: ${words[measure]} p50 / p99`, figures);
}

function milliseconds(results: readonly StreamsResult[], measure: Measure): string {
  const of = (key: keyof Spread): string => figure(median(results.map((each) => each[measure][key])) / 1000);
  return `${of("p50")} / ${of("p99")} ms`;
}
