import { atLeast, atMost, median, range, told, type Bar, type Bench, type Result } from "../bar.ts";
import { cpuSeconds } from "../machine/cpu.ts";
import { openStage } from "../machine/stage.ts";
import { runWrk } from "../machine/wrk.ts";
import { answerBody } from "../programs/wire.ts";

const seconds = 4;
/** V8 goes on optimising for the first hundred thousand requests. */
export const warmUpSeconds = 8;

interface Side {
  /** `nginx`, `berth`, or an earlier commit of Berth. */
  readonly name: string;
  /** The model that an answer names: Berth puts the client's name for it there. */
  readonly answeredModel: string;
  readonly port: number;
  readonly pid: number;
  readonly samples: Sample[];
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

/** Warm non-streaming chat against nginx, side by side: the same kind of engine, one worker each, in turn. */
export const chat: Bar = {
  name: "chat",
  about: "throughput and CPU of warm non-streaming chat, against nginx",
  async run(bench) {
    await using stage = await openStage({ engine: "instant", against: bench.against });
    const { site, pinned } = stage;
    const side = (name: string, port: number, pid: number, answeredModel = "bench"): Side => ({
      name,
      answeredModel,
      port,
      pid,
      samples: [],
    });
    const load = (port: number, connections: number, forSeconds: number) =>
      runWrk({
        directory: site.directory,
        port,
        body: requestBody,
        connections,
        seconds: forSeconds,
      });
    const results: Result[] = [];
    for (const connections of [32, 256]) {
      const nginx = side("nginx", stage.nginxPort, stage.nginx.pid, "fixed");
      const berth = side("berth", site.gatewayPort, stage.gateway.pid);
      const earlier = pinned && side(pinned.name, pinned.site.gatewayPort, pinned.gateway.pid);
      const sides = [nginx, berth, ...(earlier ? [earlier] : [])];
      for (const each of sides) await check(each);
      for (const { port } of sides) await load(port, connections, warmUpSeconds);
      for (let round = 0; round < bench.rounds; round++) {
        for (const { name, port, pid, samples } of sides) {
          const before = cpuSeconds(pid);
          const { requests, perSecond, failures, bytesPerAnswer } = await load(port, connections, seconds);
          if (failures > 0) throw new Error(`${name} failed ${failures} of ${requests} requests`);
          if (bytesPerAnswer < expectedBytes) throw new Error(`${name} sent ${bytesPerAnswer} bytes per answer`);
          const cpuMicros = ((cpuSeconds(pid) - before) / requests) * 1_000_000;
          samples.push({ perSecond, cpuMicros });
          bench.say(`${name}, ${connections} connections: ${Math.round(perSecond)}/s, ${cpuMicros.toFixed(1)} µs CPU`);
        }
      }
      const direct = await load(stage.enginePort, connections, seconds);
      results.push(...judged(bench, connections, nginx, berth, direct.perSecond));
      if (earlier !== undefined) results.push(beside(connections, berth, earlier));
    }
    return results;
  },
};

export const requestBody = JSON.stringify({
  model: "bench",
  messages: [
    { role: "system", content: "You are a helpful assistant." },
    { role: "user", content: "How long is a minute?" },
  ],
  temperature: 0.7,
});
const expectedBytes = answerBody("bench").length;

/** The bytes are right before they are counted. */
async function check({ name, port, answeredModel }: Side): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: requestBody,
  });
  const text = await answer.text();
  if (text !== answerBody(answeredModel)) throw new Error(`${name} answered ${text}`);
}

function judged(bench: Bench, connections: number, nginx: Side, berth: Side, direct: number): Result[] {
  const throughput = ratios(berth, nginx, "perSecond");
  const [ours, theirs] = [middle(berth, "cpuMicros"), middle(nginx, "cpuMicros")];
  bench.say(`direct, ${connections} connections: ${Math.round(direct)}/s`);
  const what = `chat, ${connections} connections`;
  return [
    atLeast(`${what}: throughput, of nginx's`, median(throughput), 0.45, "×", range(throughput)),
    atMost(
      `${what}: CPU per request, of nginx's`,
      ours / theirs,
      3.2,
      "×",
      ` (${ours.toFixed(0)} of ${theirs.toFixed(0)} µs)`,
    ),
    told(
      `${what}: requests per second`,
      `berth ${Math.round(middle(berth, "perSecond"))}, nginx ${Math.round(middle(nginx, "perSecond"))}, direct ${Math.round(direct)}`,
    ),
  ];
}

/** CPU of a request beside an earlier commit: by pairs of neighbouring runs, since the machine's speed changes. */
function beside(connections: number, berth: Side, earlier: Side): Result {
  const pairs = ratios(berth, earlier, "cpuMicros");
  const what = `chat, ${connections} connections: CPU per request, of ${earlier.name}'s`;
  return atMost(what, median(pairs), 1.05, "×", range(pairs));
}

function ratios(ours: Side, theirs: Side, key: keyof Sample): number[] {
  return ours.samples.map((sample, round) => sample[key] / (theirs.samples[round]?.[key] ?? Number.NaN));
}

function middle(side: Side, key: keyof Sample): number {
  return median(side.samples.map((sample) => sample[key]));
}
