import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotStatus } from "../../../src/api/status.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { startComfyDouble } from "../../doubles/comfyui.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type SlotSketch, type TestGateway } from "../../support/gateway.ts";
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

async function urlOf(gateway: TestGateway): Promise<string> {
  const body: unknown = await (await gateway.post(path, asked)).json();
  assert.ok(isRecord(body) && Array.isArray(body["data"]) && isRecord(body["data"][0]));
  return String(body["data"][0]["url"]);
}

describe(`POST ${path}`, () => {
  it("answers with a path whose image the cache gives back", async () => {
    await using engine = await startComfyDouble();
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const response = await gateway.post(path, { ...asked, size: "128x64" });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "application/json");
    const body: unknown = await response.json();
    assert.ok(isRecord(body) && Array.isArray(body["data"]) && isRecord(body["data"][0]) && isRecord(body["_svc"]));
    assert.deepEqual(Object.keys(body), ["created", "data", "_svc"]);
    assert.equal(body["_svc"]["workflow"], "sdxl-turbo");
    const image = await fetch(new URL(String(body["data"][0]["url"]), gateway.url));
    assert.equal(image.status, 200);
    assert.equal(image.headers.get("content-type"), "image/png");
    assert.deepEqual(pngSize(Buffer.from(await image.arrayBuffer())), { width: 128, height: 64 });
  });

  it("records the slot's available models and the loaded model", async () => {
    const checkpoints = ["sd_xl_turbo_1.0_fp16.safetensors"];
    await using engine = await startComfyDouble({ checkpoints });
    await using gateway = await startGateway({ slots: { img: slot(engine.port), primary: { port: 1 } } });
    const drawsOf = async (name: string): Promise<unknown> => {
      const body: unknown = await (await fetch(`${gateway.url}/api/slots/${name}`)).json();
      return isRecord(body) ? body["draws"] : undefined;
    };
    const models = (first: boolean | null, second: boolean | null): object[] => [
      { id: "sd-1.5-pruned-emaonly", checkpoint: "v1-5-pruned-emaonly.safetensors", is_there: second },
      { id: "sdxl-turbo", checkpoint: checkpoints[0], is_there: first },
    ];
    assert.deepEqual(await drawsOf("img"), { models: models(true, false), loaded: null });
    await urlOf(gateway);
    assert.deepEqual(await drawsOf("img"), { models: models(true, false), loaded: "sdxl-turbo" });
    await gateway.publish("img", slot(undefined, { state: "offline" }));
    assert.deepEqual(await drawsOf("img"), { models: models(null, null), loaded: null });
    assert.equal(await drawsOf("primary"), null);
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
    const loaded = async (): Promise<unknown> => {
      const body: unknown = await (await fetch(`${gateway.url}/api/slots/img`)).json();
      return isRecord(body) && isRecord(body["draws"]) ? body["draws"]["loaded"] : undefined;
    };
    for (const count of [1, 2]) {
      await urlOf(gateway);
      assert.equal(await loaded(), "sdxl-turbo", `picture ${count}`);
    }
    await gateway.publish("img", { ...replicas, status: { ...replicas.status, processes: processes.slice(0, 1) } });
    assert.equal(await loaded(), null, "the replica that drew last is gone");
  });

  it("gives no image that was never made, and nothing outside the cache", async () => {
    await using gateway = await startGateway();
    const names = [
      "00000000-0000-4000-8000-000000000000.png",
      "x.png",
      "..%2f..%2fregistry.json",
      "%2e%2e%2fregistry.json",
    ];
    for (const name of names) {
      const response = await fetch(new URL(`/api/images/cache/${name}`, gateway.url));
      assert.equal(response.status, 404, name);
      assert.equal((await envelopeOf(response)).error.code, "system.not_found");
    }
  });

  it("goes to the slot img alone", async () => {
    await using engine = await startComfyDouble();
    await using gateway = await startGateway({ slots: { img: slot(engine.port), primary: { port: engine.port } } });
    const response = await gateway.post(path, { ...asked, model: "primary" });
    assert.equal(response.status, 404);
    assert.equal((await envelopeOf(response)).error.code, "model.not_found");
    assert.deepEqual(engine.calls, []);
  });

  const refused: readonly (readonly [fields: object, status: number, code: string])[] = [
    [{ size: "500x500" }, 400, "dispatch.invalid_request"],
    [{ n: 9 }, 400, "dispatch.invalid_request"],
    [{ prompt: "" }, 400, "dispatch.invalid_request"],
    [{ model: undefined }, 400, "dispatch.missing_model"],
    [{ model: "sd-3" }, 404, "model.not_found"],
    [{ model: "flux-schnell" }, 501, "system.not_implemented"],
  ];
  for (const [fields, status, code] of refused) {
    it(`refuses ${JSON.stringify(fields)} at once, although the slot is cold, and does not load the slot`, async () => {
      await using gateway = await startGateway({ slots: { img: slot(undefined) } });
      const response = await gateway.post(path, { ...asked, ...fields });
      assert.equal(response.status, status);
      assert.equal((await envelopeOf(response)).error.code, code);
      assert.equal(gateway.demand("img")?.held ?? 0, 0);
    });
  }

  it("is refused as disabled where no manifest configures the slot", async () => {
    await using gateway = await startGateway();
    const response = await gateway.post(path, asked);
    assert.equal(response.status, 503);
    assert.equal((await envelopeOf(response)).error.code, "slot.disabled");
  });

  for (const [model, status, code] of [
    ["flux-schnell", 501, "system.not_implemented"],
    ["sd-3", 404, "model.not_found"],
  ] as const) {
    it(`reports the model ${model} before it reports that the slot is not configured`, async () => {
      await using gateway = await startGateway();
      const response = await gateway.post(path, { ...asked, model });
      assert.equal(response.status, status);
      assert.equal((await envelopeOf(response)).error.code, code);
    });
  }

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

  it("has the error of a workflow's node in the envelope", async () => {
    await using engine = await startComfyDouble({ fault: "execution-error" });
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const response = await gateway.post(path, asked);
    assert.equal(response.status, 502);
    const { error } = await envelopeOf(response);
    assert.equal(error.code, "dispatch.upstream_failed");
    assert.match(error.message, /failed in KSampler: HIP out of memory/);
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
    const spec = { timeoutSeconds: { firstByte: 2, idle: 300 } };
    await using gateway = await startGateway({ slots: { img: slot(engine.port, { spec }) } });
    const response = await gateway.post(path, asked);
    assert.equal(response.status, 504);
    assert.equal((await envelopeOf(response)).error.code, "dispatch.upstream_timeout");
    assert.ok(engine.calls.some((call) => call.path === "/interrupt"));
  });

  it("counts like every other route", async () => {
    await using engine = await startComfyDouble();
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    await urlOf(gateway);
    assert.equal(await gateway.metric(`berth_requests_total{route="${path}",slot="img",code="200"}`), 1);
  });
});
