import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { ImageCache } from "../../../src/gateway/images/cache.ts";
import { drawImages } from "../../../src/gateway/images/exchange.ts";
import { planImage, type ImagePlan } from "../../../src/gateway/images/images.ts";
import { loadWorkflows } from "../../../src/gateway/images/workflows.ts";
import { ExchangeError, type Exchange } from "../../../src/lib/exchange.ts";
import { EnginePool } from "../../../src/lib/http1/client.ts";
import { startComfyDouble } from "../../doubles/comfyui.ts";
import { freePort } from "../../support/free-port.ts";
import { record } from "../../support/openai.ts";
import { until } from "../../support/until.ts";

const body = Buffer.from(JSON.stringify({ model: "img", prompt: "a cat", response_format: "b64_json", seed: 1 }));
const plan = planImage(body, loadWorkflows(), { names: ["img"], held: "sdxl-turbo" });

/** What the relay would hear, in order. */
function draw(port: number, planned = (): ImagePlan => plan): { exchange: Exchange; heard: unknown[] } {
  const heard: unknown[] = [];
  const engine = { transport: new EnginePool({ host: "127.0.0.1", port }) };
  const exchange = drawImages(
    planned,
    { engine, cache: new ImageCache("/nowhere"), basePath: "", pollMs: 5 },
    {
      onHead: ({ status, contentType }) => heard.push([status, contentType]),
      onData: (chunk) => heard.push(chunk.toString()),
      onEnd: () => heard.push("end"),
      onError: (error) => heard.push(error),
    },
  );
  return { exchange, heard };
}

describe("drawImages", () => {
  it("reports one JSON answer, waits while its reader is slow, and continues when the reader is ready", async () => {
    await using double = await startComfyDouble();
    const { exchange, heard } = draw(double.port);
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
    const { heard } = draw(await freePort(), () => {
      throw failure;
    });
    await until("it fails", () => heard.length > 0);
    assert.deepEqual(heard, [failure]);
  });

  it("ends for a reader that leaves while the exchange waits for it", async () => {
    await using double = await startComfyDouble();
    const { exchange, heard } = draw(double.port);
    exchange.pause();
    await until("it has begun", () => heard.length > 1);
    exchange.abort();
    await new Promise(setImmediate);
    assert.equal(heard.length, 2);
  });

  it("reports an engine that was never reached as a failed connection", async () => {
    const { heard } = draw(await freePort());
    await until("it fails", () => heard.length > 0);
    assert.ok(heard[0] instanceof ExchangeError && heard[0].phase === "connect");
  });

  it("reports an engine that stops within the exchange as a failure: no request may be sent again", async () => {
    await using double = await startComfyDouble({ fault: "die", workMs: 20 });
    const { heard } = draw(double.port);
    await until("it fails", () => heard.length > 0);
    assert.ok(heard[0] instanceof ApiError && heard[0].code === "dispatch.upstream_failed");
  });
});
