import { TokenStore } from "../../../src/store/auth/tokens.ts";
import { atLeast, atMost, median, range, told, type Bar, type Result } from "../bar.ts";
import { cpuSeconds } from "../machine/cpu.ts";
import { openStage } from "../machine/stage.ts";
import { runWrk } from "../machine/wrk.ts";
import { answerBody } from "../programs/wire.ts";

const seconds = 4;
/** V8 goes on optimising for the first hundred thousand requests. */
export const warmUpSeconds = 8;

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

interface Side {
  /** `nginx`, `berth`, or an earlier commit of Berth. */
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  /** The model that an answer names: Berth puts the client's name for it there. */
  readonly answeredModel: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Warm non-streaming chat against nginx, side by side: the same kind of engine, one worker each, in turn. */
export const chat: Bar = {
  name: "chat",
  about: "throughput and CPU of warm non-streaming chat, against nginx",
  async run(bench) {
    await using stage = await openStage({ engine: "instant", against: bench.against });
    const { site, pinned } = stage;
    const { token } = await new TokenStore(site.stateDir).create({ label: "bench", scope: "v1-only" });
    const guardedPort = site.sparePort + 1;
    const guarded = await site.gateway({ port: guardedPort, env: { SVC_AUTH_ENABLED: "1" } });
    const side = (name: string, port: number, { pid }: { pid: number }, more: Partial<Side> = {}): Side => ({
      name,
      port,
      pid,
      answeredModel: "bench",
      headers: {},
      ...more,
    });
    const nginx = side("nginx", stage.nginxPort, stage.nginx, { answeredModel: "fixed" });
    const berth = side("berth", site.gatewayPort, stage.gateway);
    const withToken = side("with a token", guardedPort, guarded, { headers: { authorization: `Bearer ${token}` } });
    const earlier = pinned && side(pinned.name, pinned.site.gatewayPort, pinned.gateway);
    const sides = [nginx, berth, withToken, ...(earlier ? [earlier] : [])];
    for (const each of sides) await check(each);
    const load = ({ port, headers }: Pick<Side, "port" | "headers">, connections: number, forSeconds: number) =>
      runWrk({ directory: site.directory, port, headers, body: requestBody, connections, seconds: forSeconds });
    const results: Result[] = [];
    for (const connections of [32, 256]) {
      const samples = new Map<Side, Sample[]>(sides.map((each) => [each, []]));
      for (const each of sides) await load(each, connections, warmUpSeconds);
      for (let round = 0; round < bench.rounds; round++) {
        for (const each of sides) {
          const before = cpuSeconds(each.pid);
          const { requests, perSecond, failures, bytesPerAnswer } = await load(each, connections, seconds);
          if (failures > 0) throw new Error(`${each.name} failed ${failures} of ${requests} requests`);
          if (bytesPerAnswer < expectedBytes) throw new Error(`${each.name} sent ${bytesPerAnswer} bytes per answer`);
          const cpuMicros = ((cpuSeconds(each.pid) - before) / requests) * 1_000_000;
          samples.get(each)?.push({ perSecond, cpuMicros });
          bench.say(`${each.name}, ${connections} connections: ${Math.round(perSecond)}/s, ${cpuMicros.toFixed(1)} µs`);
        }
      }
      // By pairs of neighbouring runs, since the machine's speed changes.
      const ratios = (ours: Side, theirs: Side, key: keyof Sample): number[] =>
        (samples.get(ours) ?? []).map(
          (sample, round) => sample[key] / (samples.get(theirs)?.[round]?.[key] ?? Number.NaN),
        );
      const middle = (of: Side, key: keyof Sample): string =>
        median((samples.get(of) ?? []).map((sample) => sample[key])).toFixed(0);
      const what = `chat, ${connections} connections`;
      const throughput = ratios(berth, nginx, "perSecond");
      const cpu = ratios(berth, nginx, "cpuMicros");
      const figures = ` (${middle(berth, "cpuMicros")} of ${middle(nginx, "cpuMicros")} µs)`;
      const direct = await load({ port: stage.enginePort, headers: {} }, connections, seconds);
      results.push(
        atLeast(`${what}: throughput, of nginx's`, median(throughput), 0.45, "×", range(throughput)),
        atMost(`${what}: CPU per request, of nginx's`, median(cpu), 3.2, "×", figures),
        told(
          `${what}: requests per second`,
          `berth ${middle(berth, "perSecond")}, with a token ${middle(withToken, "perSecond")}, nginx ${middle(nginx, "perSecond")}, direct ${Math.round(direct.perSecond)}`,
        ),
      );
      if (earlier === undefined) continue;
      const beside = ratios(berth, earlier, "cpuMicros");
      results.push(atMost(`${what}: CPU per request, of ${earlier.name}'s`, median(beside), 1.05, "×", range(beside)));
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
async function check({ name, port, answeredModel, headers }: Side): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: requestBody,
  });
  const text = await answer.text();
  if (text !== answerBody(answeredModel)) throw new Error(`${name} answered ${text}`);
}
