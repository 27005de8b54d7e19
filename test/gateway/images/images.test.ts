import assert from "node:assert/strict";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { ImageCache } from "../../../src/gateway/images/cache.ts";
import {
  answerText,
  generate,
  planImage,
  type Drawn,
  type GenerateOptions,
} from "../../../src/gateway/images/images.ts";
import { loadWorkflows } from "../../../src/gateway/images/workflows.ts";
import { EnginePool } from "../../../src/lib/http1/client.ts";
import { startComfyDouble, type ComfyDouble, type ComfyFault } from "../../doubles/comfyui.ts";
import { freePort } from "../../support/free-port.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { pngSize } from "../../support/png.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";
import { listen } from "../../support/listen.ts";
import { later } from "../../support/later.ts";

const workflows = loadWorkflows();
const slot = { names: ["img"], held: "sdxl-turbo" };

async function draw(
  endpoint: { readonly host: string; readonly port: number },
  body: object = {},
  options: Partial<GenerateOptions> = {},
): Promise<Drawn> {
  await using dir = await tempDir();
  const plan = planImage(Buffer.from(JSON.stringify({ model: "img", prompt: "a cat", ...body })), workflows, slot);
  const { signal } = new AbortController();
  return await generate(plan, {
    engine: { transport: new EnginePool(endpoint) },
    signal,
    cache: new ImageCache(dir.path),
    basePath: "",
    pollMs: 5,
    ...options,
  });
}

const pngStart = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function pngsOf({ data }: Drawn): Buffer[] {
  return data.map((item) => ("png" in item ? item.png : Buffer.alloc(0)));
}

function paths(double: ComfyDouble, ...except: string[]): string[] {
  return double.calls
    .map(({ method, path }) => `${method} ${path.replace(/[0-9a-f-]{36}/, "ID")}`)
    .filter((call) => !except.includes(call));
}

describe("generate", () => {
  it("answers in OpenAI's shape, with workflow, checkpoint and seed", async () => {
    await using double = await startComfyDouble({ workMs: 20 });
    const asked = { n: 2, size: "128x64", response_format: "b64_json", seed: 5 };
    const answer = await draw(double, asked);
    assert.ok(Math.abs(answer.created - Date.now() / 1000) < 60);
    const checkpoint = "sd_xl_turbo_1.0_fp16.safetensors";
    assert.deepEqual(answer._svc, { workflow: "sdxl-turbo", checkpoint, seed: 5 });
    const pngs = pngsOf(answer);
    for (const png of pngs) assert.deepEqual(pngSize(png), { width: 128, height: 64 });
    assert.notDeepEqual(pngs[0], pngs[1]);
    assert.deepEqual(pngsOf(await draw(double, asked)), pngs);
  });

  it("gives urls of the cache's files, as paths", async () => {
    await using double = await startComfyDouble();
    await using dir = await tempDir();
    const cache = new ImageCache(dir.path);
    const { data } = await draw(double, {}, { cache, basePath: "/berth" });
    const [item] = data;
    assert.ok(item !== undefined && "url" in item);
    assert.match(item.url, /^\/berth\/api\/images\/cache\/[0-9a-f-]{36}\.png$/);
    const cached = await cache.open(item.url.split("/").at(-1) ?? "");
    assert.deepEqual((await cached?.file.readFile())?.subarray(1, 4).toString(), "PNG");
    await cached?.file.close();
  });

  it("chooses a seed of its own each time, and says which", async () => {
    await using double = await startComfyDouble();
    const seeds = [(await draw(double))._svc.seed, (await draw(double))._svc.seed];
    assert.notEqual(seeds[0], seeds[1]);
    const sent = double.calls.filter(({ path }) => path === "/prompt").map(({ body }) => JSON.stringify(body));
    seeds.forEach((seed, index) => assert.match(sent[index] ?? "", new RegExp(`"seed":${seed},`)));
  });

  it("removes its entries from the engine's queue and history", async () => {
    await using double = await startComfyDouble({ workMs: 20 });
    await draw(double);
    const calls = paths(double);
    assert.deepEqual(calls.slice(0, 2), ["POST /prompt", "GET /history/ID"]);
    assert.deepEqual(calls.slice(-2), ["GET /view", "POST /history"]);
  });

  it("waits behind earlier requests of other clients to the engine", async () => {
    await using double = await startComfyDouble({ workMs: 30 });
    const answers = await Promise.all([draw(double), draw(double), draw(double)]);
    assert.equal(answers.flatMap(({ data }) => data).length, 3);
  });

  it("gets its image also where the engine ends between the questions for its history and for its queue", async () => {
    let id = "";
    let isOver = false;
    await using engine = await scriptedEngine((response, { method, path, body }) => {
      if (path === "/prompt") ({ prompt_id: id } = JSON.parse(body));
      if (path === "/queue") isOver = true;
      const images = [{ filename: "a.png" }];
      const isAsked = method === "GET" && path.startsWith("/history/") && isOver;
      if (path.startsWith("/view")) response.end(Buffer.concat([pngStart, Buffer.from("\0\0\0\0IENDcrc.")]));
      else json(response, isAsked ? { [id]: { outputs: { "9": { images } } } } : { prompt_id: id });
    });
    assert.equal(
      pngsOf(await draw({ host: "127.0.0.1", port: engine.port }, { response_format: "b64_json" })).length,
      1,
    );
  });

  const faults: readonly (readonly [fault: ComfyFault, code: string, status: number, message: RegExp])[] = [
    ["node-error", "dispatch.rejected", 400, /KSampler: Value 900 bigger than max of 100: cfg/],
    ["execution-error", "dispatch.upstream_failed", 502, /failed in KSampler: HIP out of memory.* x\.safetensors$/],
    ["die", "dispatch.upstream_failed", 502, /stopped while it worked|closed the connection/],
    ["lose", "dispatch.upstream_failed", 502, /lost the request/],
    ["garbage", "dispatch.upstream_failed", 502, /garbage/],
    ["garbage-history", "dispatch.upstream_failed", 502, /history is no JSON/],
    ["garbage-image", "dispatch.upstream_failed", 502, /no whole PNG/],
    ["few", "dispatch.upstream_failed", 502, /made 0 of 1/],
  ];
  for (const [fault, code, status, message] of faults)
    it(`reports the cause for an engine with the fault ${fault}`, async () => {
      await using double = await startComfyDouble({ workMs: 10, fault });
      const failure = await rejectionOf(draw(double), ApiError);
      assert.deepEqual([failure.code, failure.status], [code, status]);
      assert.match(failure.message, message);
      assert.doesNotMatch(JSON.stringify(failure.envelope()), /\/opt|Traceback|execution\.py|127\.0\.0\.1/);
    });

  it("names the checkpoint file that the engine lacks", async () => {
    await using double = await startComfyDouble({ checkpoints: ["other.safetensors"] });
    await assert.rejects(draw(double), {
      code: "model.not_loaded",
      status: 404,
      message: /no checkpoint sd_xl_turbo_1\.0_fp16\.safetensors/,
    });
  });

  it("distinguishes an absent engine from a failing one", async () => {
    const port = await freePort();
    await assert.rejects(draw({ host: "127.0.0.1", port }), { code: "dispatch.upstream_unavailable", status: 502 });
  });

  it("reports an engine whose answer is not HTTP", async () => {
    const server = createServer((socket) => socket.end("220 smtp ready\r\n"));
    const port = await listen(server);
    try {
      await assert.rejects(draw({ host: "127.0.0.1", port }), { code: "dispatch.upstream_failed" });
    } finally {
      server.close();
    }
  });

  it("interrupts the engine when the client leaves, and only the drawing of that client's", async () => {
    await using double = await startComfyDouble({ fault: "never" });
    const client = new AbortController();
    const drawing = later(draw(double, {}, { signal: client.signal }));
    await until("the engine works", () => double.calls.some(({ path }) => path.startsWith("/history/")));
    const waiting = new AbortController();
    const second = later(draw(double, {}, { signal: waiting.signal }));
    await until("the second waits", () => double.calls.filter(({ path }) => path === "/prompt").length === 2);
    waiting.abort(new Error("left"));
    await assert.rejects(second, { message: "left" });
    assert.ok(!paths(double).includes("POST /interrupt"), "the running one is not the one that was left");
    client.abort(new Error("left"));
    await assert.rejects(drawing, { message: "left" });
    assert.ok(paths(double).includes("POST /interrupt"));
    assert.deepEqual(paths(double, "GET /history/ID").slice(-3), ["POST /queue", "GET /queue", "POST /interrupt"]);
  });

  it("stops an engine that is slow to confirm that it has begun", async () => {
    await using double = await startComfyDouble({ fault: "never", answerMs: 200 });
    const client = new AbortController();
    const drawing = later(draw(double, {}, { signal: client.signal }));
    await until("the engine has it", () => double.calls.length === 1);
    client.abort(new Error("left"));
    await assert.rejects(drawing, { message: "left" });
    assert.deepEqual(paths(double), ["POST /prompt", "POST /queue", "GET /queue", "POST /interrupt"]);
  });

  it("gives up at the ceiling, and stops the engine", async () => {
    await using double = await startComfyDouble({ fault: "never" });
    await assert.rejects(draw(double, {}, { ceilingMs: 100 }), { code: "dispatch.upstream_timeout", status: 504 });
    assert.ok(paths(double).includes("POST /interrupt"));
  });

  it("is system.internal where the image cannot be written", async () => {
    await using double = await startComfyDouble();
    const nowhere = new ImageCache("/dev/null/images");
    await assert.rejects(draw(double, {}, { cache: nowhere }), { code: "system.internal", status: 500 });
  });

  it("sends the engine no request for a client that has left already", async () => {
    await using double = await startComfyDouble();
    await assert.rejects(draw(double, {}, { signal: AbortSignal.abort(new Error("gone")) }), { message: "gone" });
    assert.deepEqual(double.calls, []);
  });
});

describe("answerText", () => {
  const _svc = { workflow: "w", checkpoint: "c", seed: 1 };
  const text = (data: Drawn["data"]): unknown =>
    JSON.parse(Buffer.concat([...answerText({ created: 5, data, _svc })]).toString());

  it("is the JSON that an SDK reads", () => {
    assert.deepEqual(text([{ url: "/a" }, { url: "/b" }]), { created: 5, data: [{ url: "/a" }, { url: "/b" }], _svc });
  });

  it("is whole base64, however large an image is", () => {
    const images = [0, 1, 2, 49_151, 49_152, 49_153, 150_000].map((size) => Buffer.alloc(size, "noise"));
    const data = images.map((image) => ({ b64_json: image.toString("base64") }));
    assert.deepEqual(text(images.map((png) => ({ png }))), { created: 5, data, _svc });
  });
});
