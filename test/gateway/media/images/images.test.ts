import assert from "node:assert/strict";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import { ApiError } from "../../../../src/api/errors.ts";
import { ImageCache } from "../../../../src/gateway/media/images/cache.ts";
import { drawImages } from "../../../../src/gateway/media/images/exchange.ts";
import {
  answerText,
  generate,
  planImage,
  type Drawn,
  type GenerateOptions,
  type ImagePlan,
} from "../../../../src/gateway/media/images/images.ts";
import { loadWorkflows } from "../../../../src/gateway/media/images/workflows.ts";
import { ExchangeError, type Exchange } from "../../../../src/lib/exchange.ts";
import { EnginePool } from "../../../../src/engine-client/client.ts";
import { startComfyDouble, type ComfyDouble } from "../../../doubles/comfyui.ts";
import { freePort } from "../../../support/free-port.ts";
import { later } from "../../../support/later.ts";
import { listen } from "../../../support/listen.ts";
import { record } from "../../../support/openai.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { until } from "../../../support/until.ts";

const workflows = loadWorkflows();
const planOf = (format: string): ImagePlan => {
  const body = Buffer.from(JSON.stringify({ model: "img", prompt: "a cat", response_format: format }));
  return planImage(body, workflows, { names: ["img"], held: "sdxl-turbo" });
};
const engineAt = (port: number) => ({ transport: new EnginePool({ host: "127.0.0.1", port }) });

async function draw({ port }: ComfyDouble, options: Partial<GenerateOptions> = {}): Promise<Drawn> {
  await using dir = await tempDir();
  const { signal } = new AbortController();
  return await generate(planOf("url"), {
    engine: engineAt(port),
    signal,
    cache: new ImageCache(dir.path),
    basePath: "",
    pollMs: 5,
    ...options,
  });
}

function paths(double: ComfyDouble, ...except: string[]): string[] {
  return double.calls
    .map(({ method, path }) => `${method} ${path.replace(/[0-9a-f-]{36}/, "ID")}`)
    .filter((call) => !except.includes(call));
}

describe("drawing", () => {
  it("waits behind earlier requests of other clients to the engine", async () => {
    await using double = await startComfyDouble({ workMs: 30 });
    const answers = await Promise.all([draw(double), draw(double), draw(double)]);
    assert.equal(answers.flatMap(({ data }) => data).length, 3);
  });

  it("interrupts the engine when the client leaves, and only the drawing of that client's", async () => {
    await using double = await startComfyDouble({ fault: "never" });
    const client = new AbortController();
    const drawing = later(draw(double, { signal: client.signal }));
    await until("the engine works", () => double.calls.some(({ path }) => path.startsWith("/history/")));
    const waiting = new AbortController();
    const second = later(draw(double, { signal: waiting.signal }));
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
    const drawing = later(draw(double, { signal: client.signal }));
    await until("the engine has it", () => double.calls.length === 1);
    client.abort(new Error("left"));
    await assert.rejects(drawing, { message: "left" });
    assert.deepEqual(paths(double), ["POST /prompt", "POST /queue", "GET /queue", "POST /interrupt"]);
  });

  it("is system.internal where the image cannot be written", async () => {
    await using double = await startComfyDouble();
    const nowhere = new ImageCache("/dev/null/images");
    await assert.rejects(draw(double, { cache: nowhere }), { code: "system.internal", status: 500 });
  });

  it("sends the engine no request for a client that has left already", async () => {
    await using double = await startComfyDouble();
    await assert.rejects(draw(double, { signal: AbortSignal.abort(new Error("gone")) }), { message: "gone" });
    assert.deepEqual(double.calls, []);
  });
});

/** What the relay would hear, in order. */
function relayed(
  port: number,
  planned = (): ImagePlan => planOf("b64_json"),
): { exchange: Exchange; heard: unknown[] } {
  const heard: unknown[] = [];
  const exchange = drawImages(
    planned,
    { engine: engineAt(port), cache: new ImageCache("/nowhere"), basePath: "", pollMs: 5 },
    {
      onHead: ({ status, contentType }) => heard.push([status, contentType]),
      onData: (chunk) => heard.push(chunk.toString()),
      onEnd: () => heard.push("end"),
      onError: (error) => heard.push(error),
    },
  );
  return { exchange, heard };
}

describe("a drawing that is relayed", () => {
  it("reports one JSON answer, waits while its reader is slow, and continues when the reader is ready", async () => {
    await using double = await startComfyDouble();
    const { exchange, heard } = relayed(double.port);
    exchange.pause();
    await until("it has begun", () => heard.length > 1);
    await until("the engine is done with", () => double.calls.at(-1)?.path === "/history");
    assert.deepEqual([heard.length, heard[0]], [2, [200, "application/json"]]);
    exchange.resume();
    await until("it ends", () => heard.includes("end"));
    const answer = record(JSON.parse(heard.slice(1, -1).join("")));
    assert.deepEqual(Object.keys(answer), ["created", "data", "_svc"]);
  });

  it("reports a plan that became impossible, without throwing", async () => {
    const failure = new ApiError("model.not_loaded", { message: "slot img holds no model" });
    const { heard } = relayed(await freePort(), () => {
      throw failure;
    });
    await until("it fails", () => heard.length > 0);
    assert.deepEqual(heard, [failure]);
  });

  it("ends for a reader that leaves while the exchange waits for it", async () => {
    await using double = await startComfyDouble();
    const { exchange, heard } = relayed(double.port);
    exchange.pause();
    await until("it has begun", () => heard.length > 1);
    exchange.abort();
    await new Promise(setImmediate);
    assert.equal(heard.length, 2);
  });

  it("reports an engine that was never reached as a failed connection", async () => {
    const { heard } = relayed(await freePort());
    await until("it fails", () => heard.length > 0);
    assert.ok(heard[0] instanceof ExchangeError && heard[0].phase === "connect");
  });

  it("reports an engine whose answer is not HTTP as a failure", async () => {
    const server = createServer((socket) => socket.end("220 smtp ready\r\n"));
    const { heard } = relayed(await listen(server));
    await until("it fails", () => heard.length > 0);
    server.close();
    assert.ok(heard[0] instanceof ExchangeError && heard[0].phase === "broken");
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
