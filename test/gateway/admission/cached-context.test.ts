import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway } from "../../support/gateway.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

const messages = [{ role: "user", content: "hi" }];
const answer = (input: number, output: number, timings?: object): object => ({
  model: "engine-model",
  usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
  ...(timings === undefined ? {} : { timings }),
});

describe("the tokens in an engine's cache, as a gateway reports them to the operator", () => {
  it("are those of the longest of its last conversations, with the speed that llama.cpp measured", async () => {
    const timings = { cache_n: 0, prompt_n: 3000, prompt_ms: 1500.25, predicted_n: 96 };
    const answers = [answer(3000, 96, timings), answer(10, 5, { prompt_n: 10, prompt_ms: 1 })];
    await using engine = await scriptedEngine((response) => json(response, answers.shift() ?? answer(10, 5)));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const ask = async (): Promise<void> => {
      await (await gateway.post("/v1/chat/completions", { model: "primary", messages })).text();
    };
    assert.equal(gateway.demand("primary")?.context, undefined);
    for (let count = 0; count < 8; count += 1) await ask();
    await until("the demand is told", () => gateway.demand("primary")?.context !== undefined);
    assert.deepEqual(gateway.demand("primary")?.context, { tokens: 3096, tokensPerSecond: 2000 });
    // A conversation that is eight answers ago is not counted on.
    await ask();
    await until("the demand has changed", () => gateway.demand("primary")?.context?.tokens === 15);
  });

  it("are not spoilt by counts that are none", async () => {
    const figures = { prompt_n: 3000, prompt_ms: 0.000001, predicted_n: 96 };
    const answers = [answer(3000, 96, figures), answer(1e20, 1)];
    await using engine = await scriptedEngine((response) => json(response, answers.shift() ?? answer(10, 5)));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    for (let count = 0; count < 3; count += 1)
      await (await gateway.post("/v1/chat/completions", { model: "primary", messages })).text();
    await until("the answers were counted", async () => {
      return (await gateway.metric('berth_tokens_total{slot="primary",direction="in"}')) === 3010;
    });
    await until("the demand is told", () => gateway.demand("primary")?.context !== undefined);
    assert.deepEqual(gateway.demand("primary")?.context, { tokens: 3096 });
  });

  it("are none after the engine was started again, and none by embeddings", async () => {
    await using engine = await scriptedEngine((response) => json(response, answer(300, 96)));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    await (await gateway.post("/v1/chat/completions", { model: "primary", messages })).text();
    await until("the demand is told", () => gateway.demand("primary")?.context?.tokens === 396);
    await gateway.publish("primary", { state: "offline" });
    await gateway.publish("primary", { port: engine.port });
    await until("the demand is empty", () => gateway.demand("primary")?.context === undefined);
    engine.answer((response) =>
      json(response, { object: "list", data: [], usage: { prompt_tokens: 900, total_tokens: 900 } }),
    );
    await (await gateway.post("/v1/embeddings", { model: "primary", input: "hi" })).text();
    await until("the answer was counted", async () => {
      return (await gateway.metric('berth_tokens_total{slot="primary",direction="in"}')) === 1200;
    });
    assert.equal(gateway.demand("primary")?.context, undefined);
  });
});
