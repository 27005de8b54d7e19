import assert from "node:assert/strict";
import {
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from "node:http";
import { text as textOf } from "node:stream/consumers";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { envelopeOf } from "../support/envelope.ts";
import { formBody } from "../support/form.ts";
import { startGateway } from "../support/gateway.ts";
import { json, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { answerOf, ask, openProvider, specOf } from "./providers/fixture.ts";

const MiB = 1024 * 1024;
/** Room for one body of 3 MiB, and for no two. */
const env = { SVC_BUFFER_LIMIT: String(5 * MiB), SVC_SPOOL_LIMIT: String(2 * MiB) };
const jsonType = { "content-type": "application/json" };
const chat = (words: string): string =>
  JSON.stringify({ model: "primary", messages: [{ role: "user", content: words }] });
const large = chat("x".repeat(3 * MiB));

/** Sends mebibytes of a text without end for as long as somebody takes them. */
function endless(response: ServerResponse, text: string): void {
  const piece = Buffer.alloc(MiB, text);
  const more = (): void => {
    while (!response.destroyed) if (!response.write(piece)) return void response.once("drain", more);
  };
  more();
}

/** A request whose body never ends, with all but its last bytes. */
function unfinished(url: string, headers: OutgoingHttpHeaders, body: Buffer): ClientRequest {
  const half = httpRequest(url, {
    method: "POST",
    agent: false,
    headers: { ...headers, "content-length": body.length },
  });
  half.on("error", () => undefined);
  half.write(body.subarray(0, body.length - 100));
  return half;
}

async function firstAnswer(requests: readonly ClientRequest[]): Promise<IncomingMessage> {
  return await Promise.race(
    requests.map((each) => new Promise<IncomingMessage>((resolve) => each.once("response", resolve))),
  );
}

async function refusal(response: Response): Promise<string> {
  const { error } = await envelopeOf(response);
  return `${response.status} ${error.code}`;
}

describe("SVC_BUFFER_LIMIT", () => {
  it("counts the bodies of the management API", async () => {
    await using gateway = await startGateway({ env });
    const body = Buffer.alloc(MiB, " ");
    const halves = Array.from({ length: 6 }, () => unfinished(`${gateway.url}/api/slots/primary/load`, jsonType, body));
    const refused = await firstAnswer(halves);
    assert.equal(refused.statusCode, 503);
    // A connection that closes would lose the answer to a sender that writes all before it reads.
    assert.notEqual(refused.headers.connection, "close");
    assert.match(await textOf(refused), /"system\.overloaded".*SVC_BUFFER_LIMIT/);
    for (const half of halves) half.destroy();
  });

  it("counts a body, unpacked, until its engine has answered or its client has left, also without a limit of requests", async () => {
    const turn = Promise.withResolvers<void>();
    await using engine = await scriptedEngine(async (response) => {
      await turn.promise;
      json(response, { choices: [] });
    });
    const spec = { concurrency: { max: 0, queue: 0 } };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec } }, env });
    const leaving = new AbortController();
    const packed = new Uint8Array(gzipSync(large));
    assert.ok(packed.length < 16_384);
    const headers = { ...jsonType, "content-encoding": "gzip" };
    const left = gateway.post("/v1/chat/completions", "", { body: packed, headers, signal: leaving.signal });
    await until("it is with the engine", () => engine.seen.length === 1);
    const refused = await gateway.post("/v1/chat/completions", large);
    assert.equal(await refusal(refused), "503 system.overloaded");
    assert.equal(refused.headers.get("retry-after"), "5");
    leaving.abort();
    await assert.rejects(left);
    await until("the engine is told", () => engine.seen[0]?.isAborted === true);
    const next = gateway.post("/v1/chat/completions", large);
    await until("there is room again", () => engine.seen.length === 2);
    const small = gateway.post("/v1/chat/completions", chat("hi"));
    await until("what is small goes on", () => engine.seen.length === 3);
    assert.equal(await refusal(await gateway.post("/v1/chat/completions", large)), "503 system.overloaded");
    turn.resolve();
    assert.deepEqual([(await next).status, (await small).status], [200, 200]);
    assert.equal((await gateway.post("/v1/chat/completions", large)).status, 200);
  });
});

describe("a whole answer of an engine or provider", () => {
  const rank = { model: "far", query: "x", documents: ["a"] };
  it("is refused beyond 16 MiB where it has to be translated, and beyond the buffer limit", async () => {
    for (const [limit, expected, message] of [
      ["512Mi", "502 dispatch.upstream_failed", /too large to be translated/],
      ["5Mi", "503 system.overloaded", /SVC_BUFFER_LIMIT/],
    ] as const) {
      await using engine = await scriptedEngine((response) =>
        endless(response.writeHead(200, { "content-type": "application/json" }), " "),
      );
      const baseUrl = `http://127.0.0.1:${engine.port}/v1`;
      const spec = specOf({ baseUrl, capabilities: ["rerank"], models: [{ ref: "far" }] });
      await using gateway = await startGateway({
        slots: { primary: { port: engine.port } },
        registry: { upstreams: [{ name: "acme", spec }] },
        env: { SVC_BUFFER_LIMIT: limit },
      });
      for (const model of ["far", "primary"]) {
        const response = await gateway.post("/v1/rerank", { ...rank, model });
        const { error } = await envelopeOf(response);
        assert.equal(`${response.status} ${error.code}`, expected, model);
        assert.match(error.message, message);
      }
    }
  });

  it("is counted until its client reads it", async () => {
    // The sockets on the way hold up to 5 MiB: what is left of the answer has no room beside the next request.
    const answer = JSON.stringify({ choices: [], text: "x".repeat(14 * MiB) });
    const next = chat("x".repeat(8 * MiB));
    await using engine = await scriptedEngine(
      (response) => void response.writeHead(200, { "content-type": "application/json" }).end(answer),
    );
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      env: { SVC_BUFFER_LIMIT: String(15 * MiB) },
    });
    const url = `${gateway.url}/v1/chat/completions`;
    const sleeping = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = httpRequest(url, { method: "POST", agent: false, headers: jsonType });
      request.once("response", resolve).once("error", reject).end(chat("hi"));
    });
    assert.equal(await refusal(await gateway.post("/v1/chat/completions", next)), "503 system.overloaded");
    sleeping.resume();
    await new Promise((resolve) => sleeping.once("end", resolve));
    await until("there is room", async () => (await gateway.post("/v1/chat/completions", next)).status === 200);
  });
});

describe("an error that has no end", () => {
  it("of an engine or a provider is reported after its first 64 KiB", async () => {
    await using engine = await scriptedEngine((response) =>
      endless(response.writeHead(400, { "content-type": "text/plain" }), "e"),
    );
    const spec = specOf({ baseUrl: `http://127.0.0.1:${engine.port}/v1`, models: [{ ref: "far" }] });
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      registry: { upstreams: [{ name: "acme", spec }] },
    });
    for (const model of ["primary", "far"]) {
      const response = await gateway.post("/v1/chat/completions", { model, messages: [] });
      assert.equal(await refusal(response), "400 dispatch.rejected", model);
      await until("the engine is left alone", () => engine.seen.every(({ isAborted }) => isAborted));
    }
  });

  it("that arrives slowly is reported at its time limit, or the request is sent again", async () => {
    await using engine = await scriptedEngine((response) => {
      if (engine.seen.length > 1) response.writeHead(200, { "content-type": "application/json" }).end("{}");
      else response.writeHead(503, { "content-type": "text/plain" }).write("wait");
    });
    await using open = openProvider({ baseUrl: `http://127.0.0.1:${engine.port}/v1`, retries: 1 });
    assert.equal(await answerOf(ask(open.provider, { errorMs: 20 })), "{}");
    assert.deepEqual(open.outcomes, ["503", "retry", "200"]);
    await until("the first is left alone", () => engine.seen[0]?.isAborted === true);
  });
});

describe("SVC_SPOOL_LIMIT", () => {
  it("bounds the bytes of all uploads on disk together, also before their model is known", async () => {
    await using gateway = await startGateway({
      slots: { stt: { spec: { engine: "stt" }, status: { capabilities: ["transcription"] } } },
      env,
    });
    const form = formBody("b", [
      { name: "file", filename: "a.wav", value: Buffer.alloc(1.5 * MiB) },
      { name: "model", value: "stt" },
    ]);
    const headers = { "content-type": "multipart/form-data; boundary=b" };
    // Their last bytes, with the model, never come.
    const halves = [1, 2, 3].map(() => unfinished(`${gateway.url}/v1/audio/transcriptions`, headers, form));
    const refused = await firstAnswer(halves);
    assert.equal(refused.statusCode, 503);
    assert.match(await textOf(refused), /"system\.overloaded".*SVC_SPOOL_LIMIT/);
    for (const half of halves) half.destroy();
    // One that is not refused waits for its slot.
    const leaving = new AbortController();
    const whole = { headers, body: new Uint8Array(form), signal: leaving.signal };
    await until("there is room for the next", async () => {
      let isRefused = false;
      const refuse = (): void => void (isRefused = true);
      void gateway.post("/v1/audio/transcriptions", "", whole).then(refuse, () => undefined);
      await until("it waits or is refused", () => isRefused || gateway.demand("stt")?.held === 1);
      return !isRefused;
    });
    leaving.abort();
  });
});
