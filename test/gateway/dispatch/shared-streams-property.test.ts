import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { helloChunks, scriptedEngine, type ScriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { startGateway, type TestGateway } from "../auth/gateway.ts";
import { fc } from "../../support/fast-check.ts";

const whole = helloChunks.join("").replaceAll("engine-model", "primary");
const bodyOf = (seed: number): object => ({
  model: "primary",
  stream: true,
  seed,
  messages: [{ role: "user", content: "hi" }],
});

describe("streams that wait for one slot", () => {
  let engine: ScriptedEngine;
  let gateway: TestGateway;
  /** Two of one scope, one of another. */
  let tokens: readonly string[] = [];
  before(async () => {
    engine = await scriptedEngine();
    gateway = await startGateway({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
    const made = (["v1-only", "v1-only", "all"] as const).map((scope, nth) =>
      gateway.tokens.create({ label: `client ${nth}`, scope }),
    );
    tokens = (await Promise.all(made)).map(({ token }) => token);
  });
  after(async () => {
    await gateway[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });

  const readers = (count: number): Promise<true> =>
    until(`${count} wait`, async () => (await gateway.metric("berth_shared_stream_readers")) === count);
  const ask = async (who: number, seed: number, leaving?: AbortSignal): Promise<string> => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${tokens[who]}` };
    const response = await gateway.post("/v1/chat/completions", bodyOf(seed), {
      headers,
      ...(leaving === undefined ? {} : { signal: leaving }),
    });
    return await response.text();
  };

  it("are never more than one call for equal requests while clients join and leave, and remaining clients get the whole answer", async () => {
    const caller = fc.record({ who: fc.nat(2), seed: fc.nat(2), leaves: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(caller, { minLength: 1, maxLength: 9 }), async (callers) => {
        await gateway.publish("primary", {});
        await readers(0);
        engine.seen.splice(0);
        const asked = callers.map((each) => {
          const leaving = new AbortController();
          return { ...each, leaving, answer: ask(each.who, each.seed, leaving.signal) };
        });
        await readers(callers.length);
        for (const { leaves, leaving, answer } of asked) {
          if (!leaves) continue;
          leaving.abort();
          await assert.rejects(answer);
        }
        const staying = asked.filter(({ leaves }) => !leaves);
        await readers(staying.length);
        await gateway.publish("primary", { port: engine.port });
        for (const { answer } of staying) assert.equal(await answer, whole);
        const calls = new Set(staying.map(({ who, seed }) => `${who === 2 ? "all" : "v1-only"} ${seed}`));
        assert.equal(engine.seen.length, calls.size);
        await until("nothing is in flight", async () => {
          return (await gateway.metric('berth_requests_in_flight{slot="primary"}')) === 0;
        });
      }),
      { numRuns: 20, interruptAfterTimeLimit: 60_000 },
    );
  });
});
