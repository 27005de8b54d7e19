import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { it } from "node:test";
import { isRecord } from "../../src/cli/output.ts";
import { keyOf, processOf } from "../llama-server/fixture.ts";
import { sharedModels, ready, startOnGpu } from "./fixture.ts";

const streams = 16;
const rounds = 3;
const roundSeconds = 2;

interface Way {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface Round {
  readonly tokensPerSecond: number;
  /** Half of the streams had their first token within this time. */
  readonly firstMs: number;
}

it("sixteen streams have as many tokens a second through the gateway as straight from the engine", async (test) => {
  const models = await sharedModels();
  await using berth = await startOnGpu(models, {
    streams: { model: "streams", more: `context_size = 4096\nparallel = ${streams}` },
  });
  const slot = await ready(berth, "streams");
  const direct: Way = { url: processOf(slot).endpoint, headers: await keyOf(berth, "streams") };
  const through: Way = { url: berth.url, headers: {} };
  // Each way once, to warm up and to learn the pace.
  const pace = Math.min((await round(direct, 48)).tokensPerSecond, (await round(through, 48)).tokensPerSecond);
  const tokens = Math.round(Math.min(Math.max((pace * roundSeconds) / streams, 32), 1024));
  const straight: Round[] = [];
  const relayed: Round[] = [];
  for (let each = 0; each < rounds; each++) {
    straight.push(await round(direct, tokens));
    relayed.push(await round(through, tokens));
  }
  const rate = (all: readonly Round[]): number => middle(all.map(({ tokensPerSecond }) => tokensPerSecond));
  const first = (all: readonly Round[]): number => middle(all.map(({ firstMs }) => firstMs));
  const ratio = rate(relayed) / rate(straight);
  test.diagnostic(
    `${streams} streams of ${tokens} tokens: ${rate(straight).toFixed(0)} tok/s direct, ${rate(relayed).toFixed(0)} tok/s ` +
      `through the gateway, ratio ${ratio.toFixed(3)}; first token ${first(straight).toFixed(0)} ms and ${first(relayed).toFixed(0)} ms`,
  );
  test.diagnostic(`direct ${rates(straight)}; through ${rates(relayed)}`);
  assert.ok(ratio >= 0.9, `${ratio}`);
});

function rates(all: readonly Round[]): string {
  return all.map(({ tokensPerSecond }) => tokensPerSecond.toFixed(0)).join(" ");
}

/** One request on each stream, all at once. */
async function round(way: Way, tokens: number): Promise<Round> {
  // llama-server closes a kept connection after a streamed answer: each request has its own.
  const agent = new Agent({ keepAlive: false });
  const began = performance.now();
  const firsts = await Promise.all(
    Array.from({ length: streams }, async (_, index) => await stream(way, agent, tokens, index)),
  );
  const seconds = (performance.now() - began) / 1000;
  const all = firsts.reduce((sum, one) => sum + one.tokens, 0);
  return { tokensPerSecond: all / seconds, firstMs: middle(firsts.map(({ firstMs }) => firstMs)) };
}

async function stream(
  { url, headers }: Way,
  agent: Agent,
  tokens: number,
  index: number,
): Promise<{ readonly tokens: number; readonly firstMs: number }> {
  const body = JSON.stringify({
    model: "streams",
    messages: [{ role: "user", content: `stream ${index} asks for words` }],
    max_tokens: tokens,
    ignore_eos: true,
    cache_prompt: false,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
  });
  const began = performance.now();
  return await new Promise((resolve, reject) => {
    const asked = request(
      new URL("/v1/chat/completions", url),
      { method: "POST", agent, headers: { "content-type": "application/json", ...headers } },
      (response) => {
        let text = "";
        let firstMs = Number.NaN;
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          text += chunk;
          if (Number.isNaN(firstMs) && text.includes('"content":"')) firstMs = performance.now() - began;
        });
        response.once("error", reject);
        response.once("end", () => {
          const usage = text
            .split("\n")
            .filter((line) => line.startsWith("data: {"))
            .map((line): unknown => JSON.parse(line.slice("data: ".length)))
            .map((event) => (isRecord(event) && isRecord(event["usage"]) ? event["usage"] : undefined))
            .findLast((found) => found !== undefined);
          const count = Number(usage?.["completion_tokens"]);
          if (response.statusCode === 200 && count === tokens) resolve({ tokens: count, firstMs });
          else reject(new Error(`${response.statusCode}: ${count} of ${tokens} tokens; ${text.slice(0, 500)}`));
        });
      },
    );
    asked.once("error", reject);
    asked.end(body);
  });
}

function middle(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;
}
