import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cacheRatio } from "../../../src/gateway/telemetry/engine-cache.ts";
import { startGateway } from "../../support/gateway.ts";
import { json, sayHello, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const line = 'berth_engine_kv_cache_usage_ratio{slot="primary",ordinal="0"}';
const llama = { engine: "llama" } as const;

describe("the cache of an engine", () => {
  it("has the ratio of used tokens over all of the engine's slots", () => {
    assert.equal(cacheRatio([{ n_ctx: 100 }, { n_ctx: 100, n_prompt_tokens: 50 }]), 0.25);
    assert.equal(cacheRatio([{ n_ctx: 10, n_prompt_tokens: 50 }]), 1);
    for (const other of [[], {}, undefined, [{ id: 1 }], [{ n_ctx: 0 }]]) assert.equal(cacheRatio(other), undefined);
  });

  it("is on the page, is read only for a scrape, and is absent for an engine without that route", async () => {
    let slots = 0;
    await using engine = await scriptedEngine((response, seen) => {
      if (seen.path !== "/slots") return sayHello(response, seen);
      slots += 1;
      json(response, [{ n_ctx: 256, n_prompt_tokens: 64 }]);
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec: llama } } });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    assert.equal(slots, 0);
    await until("it is on the page", async () => (await gateway.metric(line)) === 0.25);
    engine.answer((response) => json(response, {}, 404));
    await until("it is asked no more", async () => {
      const { length } = engine.seen;
      await gateway.metric(line);
      return engine.seen.length === length;
    });
    assert.equal(await gateway.metric(line), undefined);
  });

  it("is on the page once where requests have begun to choose the slot's model", async () => {
    await using engine = await scriptedEngine((response, seen) => {
      if (seen.path !== "/slots") return sayHello(response, seen);
      json(response, [{ n_ctx: 256, n_prompt_tokens: 64 }]);
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec: llama } } });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    const ref = "test-model";
    const onRequest = { usual: ref, refs: [ref], chosen: ref, since: new Date().toISOString(), failed: [] };
    await gateway.publish("primary", { port: engine.port, spec: llama, status: { onRequest } });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    const page = await until("it is on the page", async () => {
      const text = await (await fetch(`${gateway.url}/metrics`)).text();
      return text.includes(line) ? text : undefined;
    });
    assert.equal(page.split(line).length, 2, "one line");
  });

  it("does not delay a scrape for an engine that does not answer", async () => {
    await using engine = await scriptedEngine((response, seen) => {
      if (seen.path !== "/slots") sayHello(response, seen);
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec: llama } } });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    // The engine is given two seconds. A busy machine may take longer over one scrape, and not over all.
    await until("a scrape is answered before the engine's time is over", async () => {
      await until("nothing is asked", () => engine.seen.every(({ path, isAborted }) => path !== "/slots" || isAborted));
      const began = performance.now();
      assert.equal(await gateway.metric(line), undefined);
      return performance.now() - began < 1500;
    });
  });
});
