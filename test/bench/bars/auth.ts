import { TokenStore } from "../../../src/store/auth/tokens.ts";
import { atLeast, atMost, figure, mebibyte, median, range, told, type Bar } from "../bar.ts";
import { cpuSeconds, residentBytes } from "../machine/cpu.ts";
import { loadFlood, loadRate } from "../machine/load.ts";
import { listening } from "../machine/process.ts";
import { openStage } from "../machine/stage.ts";
import type { RateSpec } from "../programs/spec.ts";
import { runWrk } from "../machine/wrk.ts";
import { warmUpSeconds } from "./chat.ts";

const seconds = 4;
const shortSeconds = 2;
const wrongTokens = 10_000;
/** What the throttle may remember: 10 000 addresses at about 200 bytes, and what the heap has not given back. */
const rememberedMiB = 16;

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

/** What a token costs who has one, and what somebody without one costs the others. */
export const auth: Bar = {
  name: "auth",
  about: `warm chat with a token, and beside ${wrongTokens} wrong ones`,
  async run(bench) {
    await using stage = await openStage({ engine: "instant", cores: bench.cores });
    const { site } = stage;
    const tokens = new TokenStore(site.stateDir);
    const authorization = `Bearer ${(await tokens.create({ label: "bench", scope: "v1-only" })).token}`;
    const port = site.sparePort + 1;
    const guarded = await site.gateway({
      cores: bench.cores.proxy,
      env: { SVC_AUTH_ENABLED: "1", SVC_PORT: String(port) },
    });
    await listening(port);

    const body = JSON.stringify({ model: "bench", messages: [{ role: "user", content: "How long is a minute?" }] });
    const load = async (
      at: number,
      pid: number,
      headers: Readonly<Record<string, string>>,
      forSeconds: number,
    ): Promise<Sample> => {
      const before = cpuSeconds(pid);
      const { perSecond, requests, failures } = await runWrk({
        directory: site.directory,
        port: at,
        body,
        connections: 32,
        seconds: forSeconds,
        headers,
        cores: bench.cores.others,
      });
      if (failures > 0) throw new Error(`${failures} requests failed`);
      return { perSecond, cpuMicros: ((cpuSeconds(pid) - before) / requests) * 1_000_000 };
    };
    const openly = (forSeconds: number): Promise<Sample> => load(site.gatewayPort, stage.gateway.pid, {}, forSeconds);
    const guardedly = (forSeconds: number): Promise<Sample> => load(port, guarded.pid, { authorization }, forSeconds);
    await openly(warmUpSeconds);
    await guardedly(warmUpSeconds);
    const ratios: number[] = [];
    const cpuRatios: number[] = [];
    // Short and in turn, each of them first as often: the machine's own speed changes by more than what is measured.
    for (let round = 0; round < bench.rounds * 4; round++) {
      const first = round % 2 === 0 ? await openly(shortSeconds) : undefined;
      const closed = await guardedly(shortSeconds);
      const open = first ?? (await openly(shortSeconds));
      ratios.push(closed.perSecond / open.perSecond);
      cpuRatios.push(closed.cpuMicros / open.cpuMicros);
      bench.say(
        `open ${Math.round(open.perSecond)}/s, ${figure(open.cpuMicros)} µs CPU each; with a token ${Math.round(closed.perSecond)}/s, ${figure(closed.cpuMicros)} µs`,
      );
    }

    const rate = { port, model: "bench", connections: 32, perSecond: 300, seconds, authorization };
    const alone: number[] = [];
    const elsewhere: number[] = [];
    const beside: number[] = [];
    const flooded = (at: number) => {
      const perSecond = wrongTokens / seconds;
      const spec = { port: at, connections: 8, requests: wrongTokens, perSecond, areManyPeers: false };
      return Promise.all([p99(rate, bench.cores.others), loadFlood(spec, bench.cores.others)]);
    };
    await flooded(port);
    for (let round = 0; round < bench.rounds; round++) {
      alone.push(await p99(rate, bench.cores.others));
      // What sends the wrong tokens takes time from what measures, wherever they go.
      elsewhere.push((await flooded(stage.enginePort))[0]);
      const before = cpuSeconds(guarded.pid);
      const [latency, flood] = await flooded(port);
      beside.push(latency);
      const others = Object.keys(flood.answers).filter((status) => status !== "401" && status !== "429");
      if (others.length > 0) throw new Error(`wrong tokens were answered ${others.join()}`);
      const micros = ((cpuSeconds(guarded.pid) - before) / flood.sent) * 1_000_000;
      bench.say(`${flood.sent} wrong tokens in ${figure(flood.seconds)} s, ${figure(micros)} µs CPU each at most`);
    }
    const before = residentBytes(guarded.pid);
    await loadFlood({ port, connections: 8, requests: 50_000, perSecond: 0, areManyPeers: true }, bench.cores.others);
    const grown = (residentBytes(guarded.pid) - before) / mebibyte;
    return [
      atLeast("warm chat with a token, of that without authentication", median(ratios), 0.95, "×", range(ratios)),
      told(
        "CPU per request with a token, of that without authentication",
        `${figure(median(cpuRatios))}×${range(cpuRatios)}`,
      ),
      atMost(
        "p99 of others beside wrong tokens, of that beside as many requests to another server",
        median(beside) / median(elsewhere),
        2,
        "×",
      ),
      told(
        "the same in figures",
        `alone ${figure(median(alone))} ms, beside others ${figure(median(elsewhere))} ms, beside wrong tokens ${figure(median(beside))} ms`,
      ),
      atMost("50 000 wrong tokens from as many peers: memory", grown, rememberedMiB, " MiB"),
    ];
  },
};

/** Milliseconds. */
async function p99(spec: RateSpec, cores: string): Promise<number> {
  const { latency, wrong, answered, sent } = await loadRate(spec, cores);
  if (wrong > 0 || answered < sent) throw new Error(`${wrong} wrong, ${sent - answered} of ${sent} not answered`);
  return latency.p99 / 1000;
}
