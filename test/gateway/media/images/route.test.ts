import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotStatus } from "../../../../src/api/status.ts";
import { startComfyDouble, type ComfyFault } from "../../../doubles/comfyui.ts";
import { envelopeOf } from "../../../support/envelope.ts";
import { startGateway, type SlotSketch, type TestGateway } from "../../../support/gateway.ts";
import { later } from "../../../support/later.ts";
import { list, record } from "../../../support/openai.ts";
import { pngSize } from "../../../support/png.ts";
import { json, scriptedEngine } from "../../../support/scripted-engine.ts";
import { until } from "../../../support/until.ts";

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

/** Waits for these drawings of img: on a slow machine its engine may once have listed its files too late. */
async function untilDraws(gateway: TestGateway, wanted: object): Promise<void> {
  await until("its drawings are as wanted", async () => {
    assert.deepEqual(await drawsOf(gateway, "img"), wanted);
    return true;
  });
}

async function refusedWith(response: Response): Promise<[status: number, code: string]> {
  return [response.status, (await envelopeOf(response)).error.code];
}

describe(`POST ${path}`, () => {
  it("answers with a path whose image the cache gives back, held while the slot is cold, and counts like every route", async () => {
    await using engine = await startComfyDouble();
    await using gateway = await startGateway({ slots: { img: slot(undefined) }, env: { SVC_BASE_PATH: "/berth" } });
    const answered = later(urlOf(gateway, { size: "128x64" }));
    await until("it is demand", () => gateway.demand("img")?.held === 1);
    await gateway.publish("img", slot(engine.port));
    const url = await answered;
    assert.match(url, /^\/berth\/api\/images\/cache\/[0-9a-f-]{36}\.png$/);
    const image = await fetch(new URL(url, gateway.url));
    assert.deepEqual([image.status, image.headers.get("content-type")], [200, "image/png"]);
    assert.deepEqual(pngSize(Buffer.from(await image.arrayBuffer())), { width: 128, height: 64 });
    assert.equal(await gateway.metric(`berth_requests_total{route="${path}",slot="img",code="200"}`), 1);
  });

  it("answers in OpenAI's shape, with workflow, checkpoint and seed, and leaves nothing in the engine's history", async () => {
    await using engine = await startComfyDouble({ workMs: 20 });
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const drawn = async (fields: object) => {
      const answer = record(
        await (await gateway.post(path, { ...asked, response_format: "b64_json", ...fields })).json(),
      );
      return {
        ...answer,
        _svc: record(answer["_svc"]),
        images: list(answer["data"]).map((each) => String(each["b64_json"])),
      };
    };
    const two = { n: 2, size: "128x64", seed: 5 };
    const { _svc, images } = await drawn(two);
    assert.deepEqual(_svc, { workflow: "sdxl-turbo", checkpoint: "sd_xl_turbo_1.0_fp16.safetensors", seed: 5 });
    for (const png of images) assert.deepEqual(pngSize(Buffer.from(png, "base64")), { width: 128, height: 64 });
    assert.notEqual(images[0], images[1]);
    const calls = engine.calls.map(({ method, path: called }) => `${method} ${called.replace(/[0-9a-f-]{36}/, "ID")}`);
    assert.deepEqual(calls.slice(0, 2), ["POST /prompt", "GET /history/ID"]);
    assert.deepEqual(calls.slice(-2), ["GET /view", "POST /history"]);
    assert.deepEqual((await drawn(two)).images, images);
    const seeds = [(await drawn({}))._svc["seed"], (await drawn({}))._svc["seed"]];
    assert.notEqual(seeds[0], seeds[1]);
    const sent = engine.calls
      .filter(({ path: called }) => called === "/prompt")
      .map(({ body }) => JSON.stringify(body));
    seeds.forEach((seed, at) => assert.match(sent[at + 2] ?? "", new RegExp(`"seed":${String(seed)},`)));
  });

  it("gets its image also where the engine ends between the questions for its history and for its queue", async () => {
    let id = "";
    let isOver = false;
    await using engine = await scriptedEngine((response, { method, path: called, body }) => {
      if (called === "/prompt") ({ prompt_id: id } = JSON.parse(body));
      if (called === "/queue") isOver = true;
      const images = [{ filename: "a.png" }];
      const isAsked = method === "GET" && called.startsWith("/history/") && isOver;
      const png = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.from("\0\0\0\0IENDcrc.")]);
      if (called.startsWith("/view")) response.end(png);
      else json(response, isAsked ? { [id]: { outputs: { "9": { images } } } } : { prompt_id: id });
    });
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert.equal(
      (await gateway.post(path, asked, { headers: { "content-type": "application/json", traceparent } })).status,
      200,
    );
    const drawing = engine.seen.filter(({ path: called }) => /^\/(prompt|queue|history\/|view)/.test(called));
    assert.deepEqual([...new Set(drawing.map(({ headers }) => headers["traceparent"]))], [traceparent]);
  });

  it("is not drawn again where its engine stops before its file is read", async () => {
    const image = { outputs: { "9": { images: [{ filename: "a.png" }] } } };
    await using engine = await scriptedEngine((response, { method, path: called, body }) => {
      if (method === "POST") return json(response, { prompt_id: JSON.parse(body).prompt_id });
      const id = called.slice("/history/".length);
      response.end(JSON.stringify({ [id]: image }), () => void engine.stop());
    });
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const response = await gateway.post(path, asked);
    assert.equal(response.status, 502, await response.text());
    assert.equal(engine.seen.filter(({ path: called }) => called === "/prompt").length, 1);
  });

  const failed = "dispatch.upstream_failed";
  const faults: readonly (readonly [fault: ComfyFault, code: string, status: number, message: RegExp])[] = [
    ["node-error", "dispatch.rejected", 400, /KSampler: Value 900 bigger than max of 100: cfg/],
    ["execution-error", failed, 502, /failed in KSampler: HIP out of memory.* x\.safetensors$/],
    ["die", failed, 502, /the image engine stopped while it worked/],
    ["lose", failed, 502, /lost the request/],
    ["garbage", failed, 502, /garbage/],
    ["garbage-history", failed, 502, /history is no JSON/],
    ["garbage-image", failed, 502, /no whole PNG/],
    ["few", failed, 502, /made 0 of 1/],
  ];
  for (const [fault, code, status, message] of faults)
    it(`reports the cause for an engine with the fault ${fault}, which is not asked again`, async () => {
      await using engine = await startComfyDouble({ workMs: 10, fault });
      await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
      const response = await gateway.post(path, asked);
      const { error } = await envelopeOf(response);
      assert.deepEqual([response.status, error.code], [status, code]);
      assert.match(error.message, message);
      assert.doesNotMatch(JSON.stringify(error), /\/opt|Traceback|execution\.py|127\.0\.0\.1/);
      assert.equal(engine.calls.filter(({ path: called }) => called === "/prompt").length, 1);
    });

  it("names the checkpoint file that the engine lacks", async () => {
    await using engine = await startComfyDouble({ checkpoints: ["other.safetensors"] });
    await using gateway = await startGateway({ slots: { img: slot(engine.port) } });
    const { error } = await envelopeOf(await gateway.post(path, asked));
    assert.equal(error.code, "model.not_loaded");
    assert.match(error.message, /no checkpoint sd_xl_turbo_1\.0_fp16\.safetensors/);
  });

  it("records the slot's available models and the loaded model", async () => {
    const checkpoints = ["sd_xl_turbo_1.0_fp16.safetensors"];
    await using engine = await startComfyDouble({ checkpoints });
    await using gateway = await startGateway({ slots: { img: slot(engine.port), primary: { port: 1 } } });
    const models = (first: boolean | null, second: boolean | null): object[] => [
      { id: "sd-1.5-pruned-emaonly", checkpoint: "v1-5-pruned-emaonly.safetensors", is_there: second },
      { id: "sdxl-turbo", checkpoint: checkpoints[0], is_there: first },
    ];
    await untilDraws(gateway, { models: models(true, false), loaded: null });
    await urlOf(gateway);
    await untilDraws(gateway, { models: models(true, false), loaded: "sdxl-turbo" });
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

  it("is refused at once where it is wrong, although the slot is cold, and does not load the slot", async () => {
    await using gateway = await startGateway({ slots: { img: slot(undefined), primary: { port: 1 } } });
    for (const [fields, status, code] of [
      [{ model: "primary" }, 404, "model.not_found"],
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
