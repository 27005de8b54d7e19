import { atLeast, atMost, median, range, told, type Bar, type Bench, type Result } from "../bar.ts";
import { cpuSeconds } from "../machine/cpu.ts";
import { openStage } from "../machine/stage.ts";
import { runWrk } from "../machine/wrk.ts";
import { answerBody } from "../programs/wire.ts";

const seconds = 4;
/** V8 goes on optimising for the first hundred thousand requests. */
export const warmUpSeconds = 8;

interface Side {
  readonly name: "nginx" | "berth";
  readonly port: number;
  readonly pid: number;
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

/** Warm non-streaming chat against nginx, side by side: the same engine, one worker each, in turn. */
export const chat: Bar = {
  name: "chat",
  about: "throughput and CPU of warm non-streaming chat, against nginx",
  async run(bench) {
    await using stage = await openStage({ engine: "instant" });
    const { site } = stage;
    const sides: readonly Side[] = [
      { name: "nginx", port: stage.nginxPort, pid: stage.nginx.pid },
      { name: "berth", port: site.gatewayPort, pid: stage.gateway.pid },
    ];
    for (const side of sides) await check(side);
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
      for (const { port } of sides) await load(port, connections, warmUpSeconds);
      const samples: Record<Side["name"], Sample[]> = { nginx: [], berth: [] };
      for (let round = 0; round < bench.rounds; round++) {
        for (const { name, port, pid } of sides) {
          const before = cpuSeconds(pid);
          const { requests, perSecond, failures, bytesPerAnswer } = await load(port, connections, seconds);
          if (failures > 0) throw new Error(`${name} failed ${failures} of ${requests} requests`);
          if (bytesPerAnswer < expectedBytes) throw new Error(`${name} sent ${bytesPerAnswer} bytes per answer`);
          const cpuMicros = ((cpuSeconds(pid) - before) / requests) * 1_000_000;
          samples[name].push({ perSecond, cpuMicros });
          bench.say(`${name}, ${connections} connections: ${Math.round(perSecond)}/s, ${cpuMicros.toFixed(1)} µs CPU`);
        }
      }
      const direct = await load(stage.enginePort, connections, seconds);
      results.push(...judged(bench, connections, samples, direct.perSecond));
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
async function check({ name, port }: Side): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: requestBody,
  });
  const text = await answer.text();
  if (text !== answerBody(name === "berth" ? "bench" : "fixed")) throw new Error(`${name} answered ${text}`);
}

function judged(
  bench: Bench,
  connections: number,
  { nginx, berth }: Record<Side["name"], readonly Sample[]>,
  direct: number,
): Result[] {
  const of = (samples: readonly Sample[], key: keyof Sample): number[] => samples.map((sample) => sample[key]);
  const ratios = berth.map(({ perSecond }, round) => perSecond / (nginx[round]?.perSecond ?? Number.NaN));
  const base = median(of(nginx, "perSecond"));
  bench.say(`direct, ${connections} connections: ${Math.round(direct)}/s`);
  return [
    atLeast(`chat, ${connections} connections: throughput, of nginx's`, median(ratios), 0.45, "×", range(ratios)),
    atMost(
      `chat, ${connections} connections: CPU per request, of nginx's`,
      median(of(berth, "cpuMicros")) / median(of(nginx, "cpuMicros")),
      3.2,
      "×",
      ` (${median(of(berth, "cpuMicros")).toFixed(0)} of ${median(of(nginx, "cpuMicros")).toFixed(0)} µs)`,
    ),
    told(
      `chat, ${connections} connections: requests per second`,
      `berth ${Math.round(median(of(berth, "perSecond")))}, nginx ${Math.round(base)}, direct ${Math.round(direct)}`,
    ),
  ];
}
