import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { envelopeOf } from "../support/envelope.ts";
import { modelRecord, startGateway, type SlotSketch } from "../support/gateway.ts";
import { json, sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const chat = (model: string): object => ({ model, messages: [{ role: "user", content: "hi" }] });
const holding = (ref: string, sketch: SlotSketch): SlotSketch => ({
  ...sketch,
  status: { model: { ref, origin: "swap", served: `engine-${ref}` }, ...sketch.status },
});

describe("a request that waited for a slot which has changed meanwhile", () => {
  it("goes to the slot's present model, under the name that its engine knows, where it names the slot", async () => {
    await using engine = await scriptedEngine((response) => json(response, { model: "engine-new", choices: [] }));
    await using gateway = await startGateway({ slots: { primary: holding("old", { state: "unloading" }) } });
    const answered = gateway.post("/v1/chat/completions", chat("primary"));
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", holding("new", { port: engine.port }));
    assert.deepEqual(await (await answered).json(), { model: "primary", choices: [] });
    assert.match(engine.seen[0]?.body ?? "", /"model":"engine-new"/);
  });

  it("is never for another model where it names the model that it held, also as a stream that others share", async () => {
    await using engine = await scriptedEngine();
    const spec = { concurrency: { max: 1 } };
    await using gateway = await startGateway({
      slots: { primary: holding("old", { state: "unloading", spec }) },
      registry: { models: [modelRecord("old")] },
    });
    const asked = ["old", "primary:old"].flatMap((model) =>
      [false, false, true, true].map((stream) => gateway.post("/v1/chat/completions", { ...chat(model), stream })),
    );
    const metric = (name: string): Promise<number | undefined> =>
      gateway.metric(`berth_requests_${name}{slot="primary"}`);
    await until("all are held", async () => (await metric("held")) === asked.length);
    await gateway.publish("primary", holding("new", { port: engine.port, spec }));
    for (const answered of asked) {
      const response = await answered;
      assert.equal(response.status, 404);
      assert.equal((await envelopeOf(response)).error.code, "model.not_loaded");
    }
    assert.equal(engine.seen.length, 0);
    // The places that they were given are free again.
    assert.equal((await gateway.post("/v1/chat/completions", chat("primary"))).status, 200);
    assert.deepEqual(await Promise.all(["held", "queued", "in_flight"].map(metric)), [0, 0, 0]);
  });

  it("is refused where the slot no longer has the capability", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: {} } });
    const answered = gateway.post("/v1/embeddings", { model: "primary", input: "x" });
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", { port: engine.port, status: { capabilities: ["chat"] } });
    assert.equal((await envelopeOf(await answered)).error.code, "dispatch.capability_mismatch");
    assert.equal(engine.seen.length, 0);
  });

  it("is translated where the probed engine lacks a protocol that its kind may have", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: { status: { protocols: ["messages"] } } } });
    const answered = gateway.post("/v1/messages", { ...chat("primary"), max_tokens: 1 });
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", { port: engine.port, status: { protocols: [] } });
    assert.equal((await answered).status, 200);
    assert.equal(engine.seen[0]?.path, "/v1/chat/completions");
  });
});
