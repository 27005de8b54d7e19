import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { slotSpecSchema } from "../../../src/api/slot.ts";
import { sharedCache } from "../../../src/engines/shared-cache.ts";
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

  it("is one for all places where they share it, whatever limit each place is told", async () => {
    const of = (spec: object, decided?: string): ReturnType<typeof sharedCache> => {
      const { args, env, model } = slotSpecSchema.parse({ engine: "llama", ...spec });
      const decisions = decided === undefined ? {} : { contextSize: { value: decided, reason: "" } };
      return sharedCache({ args, env, model }, { decisions });
    };
    const parallel = 17;
    assert.equal(of({ model: { parallel: 16 } }, "2048"), undefined);
    assert.equal(of({ model: { parallel }, args: ["-no-kvu"] }, "2048"), undefined);
    assert.deepEqual(of({ model: { parallel } }, "2048"), { tokens: 34_816 });
    assert.deepEqual(of({ model: { parallel, contextSize: 1000 } }), { tokens: 17_000 });
    assert.deepEqual(of({ model: { parallel }, args: ["-c", "4096"] }), { tokens: 4096 });
    assert.deepEqual(of({ model: { parallel }, env: { LLAMA_ARG_CTX_SIZE: "512" } }), { tokens: 512 });
    assert.deepEqual(of({ model: { parallel: 2 }, args: ["--kv-unified"] }), { tokens: undefined });
    // Nearly full: four of seventeen places have used 3800 of 4096 tokens, and each is told the whole cache.
    const used = (id: number): number => (id < 4 ? 950 : 0);
    const places = Array.from({ length: parallel }, (_, id) => ({ id, n_ctx: 4096, n_prompt_tokens: used(id) }));
    assert.equal(cacheRatio(places, { tokens: 4096 }), 3800 / 4096);
    assert.equal(cacheRatio(places, { tokens: undefined }), 3800 / 4096);
    await using engine = await scriptedEngine((response, seen) => {
      if (seen.path === "/slots") json(response, places);
      else sayHello(response, seen);
    });
    const spec = { ...llama, model: { parallel }, args: ["-c", "4096"] };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec } } });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    await until("the page says so", async () => ((await gateway.metric(line)) ?? 0) > 0.9);
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
    // Requests have begun to choose the slot's model.
    const ref = "test-model";
    const onRequest = { usual: ref, refs: [ref], chosen: ref, since: new Date().toISOString(), failed: [] };
    await gateway.publish("primary", { port: engine.port, spec: llama, status: { onRequest } });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    const page = await until("it is on the page again", async () => {
      const text = await (await fetch(`${gateway.url}/metrics`)).text();
      return text.includes(line) ? text : undefined;
    });
    assert.equal(page.split(line).length, 2, "one line");
    engine.answer((response) => json(response, {}, 404));
    await until("it is on the page no more", async () => (await gateway.metric(line)) === undefined);
  });

  it("is never waited for: a page has the last figure", async () => {
    await using engine = await scriptedEngine((response, seen) => {
      if (seen.path !== "/slots") sayHello(response, seen);
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec: llama } } });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    await until("a page comes while the engine is asked", async () => {
      assert.equal(await gateway.metric(line), undefined);
      return engine.seen.some(({ path, isAborted }) => path === "/slots" && !isAborted);
    });
  });
});
