import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import OpenAI from "openai";
import type { UpstreamSpec } from "../../../src/api/upstream.ts";
import { startProvider, type ProviderDouble } from "../../doubles/provider.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { specOf } from "./fixture.ts";

const capabilities = ["image", "speech", "transcription", "rerank", "embeddings"];

describe("a provider of images, sound and ranks", () => {
  let double: ProviderDouble;
  let gateway: TestGateway;
  let client: OpenAI;
  const upstream = (name: string, spec: object): { name: string; spec: UpstreamSpec } => ({
    name,
    spec: specOf({ baseUrl: double.baseUrl, ...spec }),
  });

  before(async () => {
    double = await startProvider();
    const models = ["painter", "tts", "nickname", "sdxl-turbo", "img:own", "held"].map((ref) => ({
      ref,
      upstreamModel: "far",
    }));
    gateway = await startGateway({
      slots: {
        img: { spec: { enabled: false }, status: { capabilities: ["image"] } },
        tts: { status: { aliases: ["nickname"] } },
        coder: { status: { model: { ref: "held", origin: "spec" } } },
      },
      registry: {
        upstreams: [
          upstream("acme", { capabilities, models }),
          upstream("chatty", { models: [{ ref: "talker" }] }),
          upstream("azure", {
            baseUrl: `${double.baseUrl}?api-version=7`,
            capabilities,
            models: [{ ref: "elsewhere" }],
          }),
        ],
      },
    });
    client = new OpenAI({ apiKey: "x", baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  });
  after(async () => {
    await gateway[Symbol.asyncDispose]();
    await double[Symbol.asyncDispose]();
  });

  const lastAsked = (): { path: string; method: string; body: string } => {
    const { path = "", method = "", body = "" } = double.asked.at(-1) ?? {};
    return { path, method, body };
  };

  it("draws the images of a model that it claims, by the client's unchanged request", async () => {
    const body = { model: "painter", prompt: "a harbour", size: "1536x1024" as const, quality: "high" as const, n: 9 };
    const { data } = await client.images.generate(body);
    assert.deepEqual(data, [{ b64_json: "cGljdHVyZQ==" }]);
    const asked = lastAsked();
    assert.equal(asked.path, "/v1/images/generations");
    assert.deepEqual(JSON.parse(asked.body), { ...body, model: "far" });
  });

  it("streams partial images, and an early end is reported", async () => {
    const stream = await client.images.generate({ model: "painter", prompt: "x", stream: true, partial_images: 1 });
    const types = (await Array.fromAsync(stream)).map(({ type }) => type);
    assert.deepEqual(types, ["image_generation.partial_image", "image_generation.completed"]);
    const large = "A".repeat(5_000_000);
    double.fail({
      kind: "answer",
      status: 200,
      headers: { "content-type": "text/event-stream" },
      body: `data: {"type":"image_generation.partial_image","b64_json":"${large}"}\n\n`,
    });
    const broken = await gateway.post("/v1/images/generations", { model: "painter", prompt: "x", stream: true });
    const text = await broken.text();
    assert.ok(text.includes(large), "an image is longer than other events");
    assert.match(text.slice(-300), /data: \{"error":\{"code":"dispatch\.upstream_failed".*\}\}\n\n$/);
  });

  it("draws no image under a slot's name, and none where it does not claim images", async () => {
    const before = double.asked.length;
    for (const [model, code] of [
      ["sdxl-turbo", "slot.disabled"],
      ["img:own", "model.not_found"],
      ["tts", "model.not_found"],
      ["nickname", "model.not_found"],
      ["held", "model.not_found"],
      ["talker", "model.not_found"],
    ] as const) {
      const { error } = await envelopeOf(await gateway.post("/v1/images/generations", { model, prompt: "x" }));
      assert.equal(error.code, code, model);
    }
    assert.equal(double.asked.length, before);
  });

  it("speaks in its own format, as bytes or events, and its voices are listed", async () => {
    const body = { model: "painter", input: "hi", voice: { id: "voice_7" }, response_format: "aac" as const };
    const speech = await client.audio.speech.create(body);
    assert.deepEqual([speech.headers.get("content-type"), await speech.text()], ["audio/mpeg", "sound"]);
    assert.deepEqual(JSON.parse(lastAsked().body), { ...body, model: "far" });
    assert.equal(double.asked.at(-1)?.headers.accept, "*/*");
    const events = await client.audio.speech.create({ ...body, stream_format: "sse" });
    assert.match(await events.text(), /"speech\.audio\.delta".*"speech\.audio\.done".*\n\n$/s);
    const voices = await fetch(`${gateway.url}/v1/audio/voices?model=elsewhere`);
    assert.deepEqual(await voices.json(), {
      object: "list",
      data: [{ id: "coral", object: "voice", name: "Coral" }],
      voices: [{ id: "coral", name: "Coral" }],
    });
    assert.deepEqual(lastAsked(), {
      path: "/v1/audio/voices?model=elsewhere&api-version=7",
      method: "GET",
      body: "",
    });
    double.fail({ kind: "answer", status: 404, body: '{"error":{"message":"no such route"}}' });
    const none = await fetch(`${gateway.url}/v1/audio/voices?model=painter`);
    assert.equal(none.status, 404);
    assert.equal((await envelopeOf(none)).error.message, "no such route");
  });

  it("serves no capability that it does not claim", async () => {
    const before = double.asked.length;
    const form = new FormData();
    form.set("model", "talker");
    form.set("file", new Blob(["x"]), "a.wav");
    for (const answer of [
      await gateway.post("/v1/rerank", { model: "talker", query: "q", documents: ["d"] }),
      await gateway.post("/v1/audio/speech", { model: "talker", input: "x", voice: "v" }),
      await fetch(`${gateway.url}/v1/audio/voices?model=talker`),
      await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: "POST", body: form }),
    ])
      assert.equal((await envelopeOf(answer)).error.code, "dispatch.capability_mismatch", answer.url);
    assert.equal(double.asked.length, before);
  });

  it("transcribes an upload, whose text may be relayed while it arrives", async () => {
    const file = await OpenAI.toFile(Buffer.from("sound ".repeat(50_000)), "a.wav");
    assert.equal((await client.audio.transcriptions.create({ model: "painter", file })).text, "hello");
    const stream = await client.audio.transcriptions.create({ model: "painter", file, stream: true });
    const types = (await Array.fromAsync(stream)).map(({ type }) => type);
    assert.deepEqual(types, ["transcript.text.delta", "transcript.text.done"]);
    const { path, body } = lastAsked();
    assert.equal(path, "/v1/audio/transcriptions");
    assert.match(double.asked.at(-1)?.headers["content-type"] ?? "", /^multipart\/form-data; boundary=/);
    assert.match(body, /name="model"\r\n\r\nfar\r\n/);
    assert.ok(body.includes("sound ".repeat(50_000)));
  });

  it("ranks and embeds", async () => {
    const ranked = await gateway.post("/v1/rerank", { model: "painter", query: "q", documents: ["d"] });
    assert.deepEqual(await ranked.json(), {
      object: "list",
      model: "painter",
      results: [{ index: 0, relevance_score: 0.5 }],
      usage: { prompt_tokens: 0, total_tokens: 0 },
    });
    assert.equal((await client.embeddings.create({ model: "painter", input: "x" })).model, "painter");
  });
});
