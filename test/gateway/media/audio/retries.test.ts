import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startProvider } from "../../../doubles/provider.ts";
import { heardIn, startWhisperDouble } from "../../../doubles/whisper.ts";
import { freePort } from "../../../support/free-port.ts";
import { startGateway } from "../../../support/gateway.ts";
import { later } from "../../../support/later.ts";
import { specOf } from "../../providers/fixture.ts";
import { field, fileOf, model, slot, transcriptions, upload, wavOf } from "./gateway.ts";

const large = wavOf(2_000_000);
const parts = [model, fileOf(large)];

describe("a transcription whose first attempt fails", () => {
  it("is sent once more to an engine that did not take the connection, whole", async () => {
    const engine = await startWhisperDouble({ path: transcriptions, port: await freePort() });
    const { port } = engine;
    await using gateway = await startGateway({ slots: { stt: slot("stt", port) } });
    await engine[Symbol.asyncDispose]();
    const answered = later(upload(gateway, parts));
    await using second = await startWhisperDouble({ path: transcriptions, port });
    assert.deepEqual(await (await answered).json(), { text: heardIn(large) });
    assert.equal(second.calls.length, 1);
  });

  it("is sent whole to another replica where the first refuses the connection", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    const processes = [await freePort(), engine.port].map((port, ordinal) => ({
      role: "main" as const,
      ordinal,
      host: "127.0.0.1",
      port,
      endpoint: `http://127.0.0.1:${port}`,
      pid: 100 + ordinal,
      isReady: true,
    }));
    const { spec, status } = slot("stt");
    await using gateway = await startGateway({
      slots: { stt: { state: "ready", ...(spec && { spec }), status: { ...status, processes } } },
      // A request that waited before another attempt would wait for longer than the test.
      gateway: { againAfterMs: [600_000] },
    });
    for (let nth = 0; nth < 2; nth += 1)
      assert.deepEqual(await (await upload(gateway, parts)).json(), { text: heardIn(large) });
    assert.equal(engine.calls.length, 2);
  });

  it("is sent once more, whole, where its provider answers 503", async () => {
    await using provider = await startProvider();
    const spec = specOf({
      baseUrl: provider.baseUrl,
      capabilities: ["transcription"],
      models: [{ ref: "ears" }],
      retries: 1,
    });
    await using gateway = await startGateway({ slots: {}, registry: { upstreams: [{ name: "acme", spec }] } });
    provider.fail({ kind: "answer", status: 503 });
    const answer = await upload(gateway, [field("model", "ears"), fileOf(large)]);
    assert.deepEqual(await answer.json(), { text: "hello" });
    const [first, second] = provider.posts.map(({ body }) => body.length);
    assert.equal(provider.posts.length, 2);
    assert.equal(first, second);
  });
});
