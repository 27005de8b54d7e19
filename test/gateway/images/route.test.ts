import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotStatus } from "../../../src/api/status.ts";
import { startComfyDouble } from "../../doubles/comfyui.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type SlotSketch, type TestGateway } from "../../support/gateway.ts";
import { list, record } from "../../support/openai.ts";
import { pngSize } from "../../support/png.ts";
import { until } from "../../support/until.ts";

const path = "/v1/images/generations";
const asked = { model: "img", prompt: "a harbour at dawn" };

function slot(port: number | undefined, more: SlotSketch = {}): SlotSketch {
  const model = { ref: "sdxl-turbo", origin: "spec", served: "sdxl-turbo" } as const;
  return {
    ...(port === undefined ? {} : { port }),
    ...more,
    spec: { engine: "image", model: { default: "sdxl-turbo" }, ...more.spec },
    status: { capabilities: ["image"], model, ...more.status },
  };
}

async function urlOf(gateway: TestGateway, fields: object = {}): Promise<string> {
  const response = await gateway.post(path, { ...asked, ...fields });
  assert.deepEqual([response.status, response.headers.get("content-type")], [200, "application/json"]);
  const [image] = list(record(await response.json())["data"]);
  return String(image?.["url"]);
}

/** A slot's drawings in the API. */
async function drawsOf(gateway: TestGateway, name: string): Promise<unknown> {
  return record(await (await fetch(`${gateway.url}/api/slots/${name}`)).json())["draws"];
}

async function refusedWith(response: Response): Promise<[status: number, code: string]> {
  return [response.status, (await envelopeOf(response)).error.code];
}

describe(`POST ${path}`, () => {
  it("answers with a path whose image the cache gives back, and counts like every other route", async () => {
    await using engine = await startComfyDouble();
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const image = await fetch(new URL(await urlOf(gateway, { size: "128x64" }), gateway.url));
    assert.deepEqual([image.status, image.headers.get("content-type")], [200, "image/png"]);
    assert.deepEqual(pngSize(Buffer.from(await image.arrayBuffer())), { width: 128, height: 64 });
    assert.equal(await gateway.metric(`berth_requests_total{route="${path}",slot="img",code="200"}`), 1);
  });

  it("records the slot's available models and the loaded model", async () => {
    const checkpoints = ["sd_xl_turbo_1.0_fp16.safetensors"];
    await using engine = await startComfyDouble({ checkpoints });
    await using gateway = await startGateway({ slots: { img: slot(engine.port), primary: { port: 1 } } });
    const models = (first: boolean | null, second: boolean | null): object[] => [
      { id: "sd-1.5-pruned-emaonly", checkpoint: "v1-5-pruned-emaonly.safetensors", is_there: second },
      { id: "sdxl-turbo", checkpoint: checkpoints[0], is_there: first },
    ];
    assert.deepEqual(await drawsOf(gateway, "img"), { models: models(true, false), loaded: null });
    await urlOf(gateway);
    assert.deepEqual(await drawsOf(gateway, "img"), { models: models(true, false), loaded: "sdxl-turbo" });
    await gateway.publish("img", slot(undefined, { state: "offline" }));
    assert.deepEqual(await drawsOf(gateway, "img"), { models: models(null, null), loaded: null });
    assert.equal(await drawsOf(gateway, "primary"), null);
  });

  it("records the last model of an image slot, whichever replica has drawn with it", async () => {
    await using first = await startComfyDouble();
    await using second = await startComfyDouble();
    const replica = (ordinal: number, port: number): NonNullable<SlotStatus["processes"]>[number] => {
      const place = { role: "main", ordinal, host: "127.0.0.1", port } as const;
      return { ...place, endpoint: `http://127.0.0.1:${port}`, pid: 1 + ordinal, isReady: true };
    };
    const processes = [replica(0, first.port), replica(1, second.port)];
    const replicas = slot(undefined, { state: "ready", spec: { replicas: 2 }, status: { processes } });
    await using gateway = await startGateway({ slots: { img: replicas } });
    const loaded = async (): Promise<unknown> => record(await drawsOf(gateway, "img"))["loaded"];
    for (const count of [1, 2]) {
      await urlOf(gateway);
      assert.equal(await loaded(), "sdxl-turbo", `picture ${count}`);
    }
    await gateway.publish("img", { ...replicas, status: { ...replicas.status, processes: processes.slice(0, 1) } });
    assert.equal(await loaded(), null, "the replica that drew last is gone");
  });

  it("gives no image that was never made, and nothing outside the cache", async () => {
    await using gateway = await startGateway();
    const unknown = "00000000-0000-4000-8000-000000000000.png";
    for (const name of [unknown, "x.png", "..%2f..%2fregistry.json", "%2e%2e%2fregistry.json"]) {
      const response = await fetch(new URL(`/api/images/cache/${name}`, gateway.url));
      assert.deepEqual(await refusedWith(response), [404, "system.not_found"], name);
    }
  });

  it("goes to the slot img alone", async () => {
    await using engine = await startComfyDouble();
    await using gateway = await startGateway({ slots: { img: slot(engine.port), primary: { port: engine.port } } });
    const response = await gateway.post(path, { ...asked, model: "primary" });
    assert.deepEqual([await refusedWith(response), engine.calls], [[404, "model.not_found"], []]);
  });

  it("is refused at once where it is wrong, although the slot is cold, and does not load the slot", async () => {
    await using gateway = await startGateway({ slots: { img: slot(undefined) } });
    for (const [fields, status, code] of [
      [{ size: "500x500" }, 400, "dispatch.invalid_request"],
      [{ model: undefined }, 400, "dispatch.missing_model"],
      [{ model: "sd-3" }, 404, "model.not_found"],
      [{ model: "flux-schnell" }, 501, "system.not_implemented"],
    ] as const)
      assert.deepEqual(await refusedWith(await gateway.post(path, { ...asked, ...fields })), [status, code]);
    assert.equal(gateway.demand("img")?.held ?? 0, 0);
  });

  it("is refused as disabled where no manifest configures the slot, unless its model is wrong", async () => {
    await using gateway = await startGateway();
    for (const [model, status, code] of [
      ["img", 503, "slot.disabled"],
      ["flux-schnell", 501, "system.not_implemented"],
      ["sd-3", 404, "model.not_found"],
    ] as const)
      assert.deepEqual(await refusedWith(await gateway.post(path, { ...asked, model })), [status, code]);
  });

  it("is held while the slot is cold", async () => {
    await using engine = await startComfyDouble();
    await using gateway = await startGateway({ slots: { img: slot(undefined) } });
    const answered = gateway.post(path, { ...asked, response_format: "b64_json" });
    await until("it is demand", () => gateway.demand("img")?.held === 1);
    await gateway.publish("img", slot(engine.port));
    assert.equal((await answered).status, 200);
  });

  it("draws one after the other, as the engine does", async () => {
    await using engine = await startComfyDouble({ workMs: 30 });
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const answers = await Promise.all([1, 2, 3].map((seed) => gateway.post(path, { ...asked, seed })));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200],
    );
    // The second was asked for only when the first was there.
    const order = engine.calls.map(({ path }) => path).filter((called) => called === "/prompt" || called === "/view");
    assert.deepEqual(order, ["/prompt", "/view", "/prompt", "/view", "/prompt", "/view"]);
  });

  it("interrupts the engine when the client leaves", async () => {
    await using engine = await startComfyDouble({ fault: "never" });
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const leaving = new AbortController();
    const answered = gateway.post(path, asked, { signal: leaving.signal });
    await until("the engine works", () => engine.calls.some((call) => call.path.startsWith("/history/")));
    leaving.abort();
    await assert.rejects(answered);
    await until("the engine is interrupted", () => engine.calls.some((call) => call.path === "/interrupt"));
  });

  it("gives up when the slot's own time is over, and stops the engine", async () => {
    await using engine = await startComfyDouble({ fault: "never" });
    const spec = { timeoutSeconds: { firstByte: 1, idle: 300 } };
    await using gateway = await startGateway({ slots: { img: slot(engine.port, { spec }) } });
    assert.deepEqual(await refusedWith(await gateway.post(path, asked)), [504, "dispatch.upstream_timeout"]);
    assert.ok(engine.calls.some((call) => call.path === "/interrupt"));
  });
});
