import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CachedContext } from "../../../src/gateway/slots/backend.ts";
import { startGateway } from "../../support/gateway.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

describe("the tokens in an engine's cache", () => {
  it("are those of the longest of its last eight conversations, with the speed that the engine measured", () => {
    const context = new CachedContext();
    context.answered({ input: 3000, promptTokens: 3000, promptMs: 1500.25 }, 96);
    for (let count = 0; count < 7; count += 1) context.answered({ input: 10, promptTokens: 10, promptMs: 1 }, 5);
    assert.deepEqual(context.figure, { tokens: 3096, tokensPerSecond: 2000 });
    context.answered({ input: 10 }, 5);
    assert.deepEqual(context.figure, { tokens: 15, tokensPerSecond: 2000 });
  });

  it("are not those of an answer without generated tokens, or without a count", () => {
    const context = new CachedContext();
    context.answered({ input: 900 }, undefined);
    context.answered(undefined, 5);
    assert.equal(context.figure, undefined);
  });

  it("have no speed by a time that is none", () => {
    const context = new CachedContext();
    context.answered({ input: 3000, promptTokens: 3000, promptMs: 0.000001 }, 96);
    assert.deepEqual(context.figure, { tokens: 3096 });
  });

  it("are reported to the operator, by counts that can be, until the engine is started again", async () => {
    const answers = [
      // As llama.cpp says.
      {
        usage: { prompt_tokens: 300, completion_tokens: 96 },
        timings: { prompt_n: 300, prompt_ms: 150, predicted_n: 96 },
      },
      { usage: { prompt_tokens: 1e20, completion_tokens: 1 } },
    ];
    await using engine = await scriptedEngine((response) => json(response, { choices: [], ...answers.shift() }));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    for (let count = 0; count < 2; count += 1)
      await (await gateway.post("/v1/chat/completions", { model: "primary", messages: [] })).text();
    await until("the demand is told", () => gateway.demand("primary")?.context !== undefined);
    assert.deepEqual(gateway.demand("primary")?.context, { tokens: 396, tokensPerSecond: 2000 });
    await gateway.publish("primary", { state: "offline" });
    await gateway.publish("primary", { port: engine.port });
    await until("the demand is empty", () => gateway.demand("primary")?.context === undefined);
  });
});
