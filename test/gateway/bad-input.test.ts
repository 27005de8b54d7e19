import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { once } from "node:events";
import { connect as http2, constants } from "node:http2";
import { gzipSync } from "node:zlib";
import { envelopeIn } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { rawExchange } from "../support/raw-http.ts";
import { json, scriptedEngine, type ScriptedEngine } from "../support/scripted-engine.ts";
import { fc } from "../support/fast-check.ts";

/** A request with its length right, whatever else is wrong. */
function post(
  path: string,
  body: string | Buffer,
  headers: readonly string[] = ["content-type: application/json"],
): Buffer {
  const bytes = Buffer.from(body);
  const head = [`POST ${path} HTTP/1.1`, "host: berth", ...headers, `content-length: ${bytes.length}`, "", ""];
  return Buffer.concat([Buffer.from(head.join("\r\n"), "latin1"), bytes]);
}

const chat = (body: string | Buffer): Buffer => post("/v1/chat/completions", body);
const form = (body: string | Buffer, boundary = "b"): Buffer =>
  post("/v1/audio/transcriptions", body, [`content-type: multipart/form-data; boundary=${boundary}`]);
const part = (name: string, value: string, more = ""): string =>
  `--b\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`;
const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;

/**
 * THE CORPUS: what is wrong with a request, its bytes, and the code that answers it. Every failure found in the wild
 * becomes a line. All of them get an envelope with a 4xx: never a 5xx, a crash or a hang.
 */
const corpus: readonly (readonly [what: string, bytes: string | Buffer, code: string])[] = [
  ["no body", chat(""), "dispatch.invalid_request"],
  ["a body that is no JSON", chat("hello"), "dispatch.invalid_request"],
  ["half a body of JSON", chat('{"model":"primary","messages":['), "dispatch.invalid_request"],
  ["JSON that is a list", chat("[]"), "dispatch.invalid_request"],
  ["JSON that is null", chat("null"), "dispatch.invalid_request"],
  ["two JSON texts", chat('{"model":"primary"}{"model":"primary"}'), "dispatch.invalid_request"],
  ["a byte order mark before nothing", chat("\uFEFF"), "dispatch.invalid_request"],
  ["NULs", chat(Buffer.alloc(64)), "dispatch.invalid_request"],
  ["a bare surrogate in the model", chat('{"model":"\\ud800"}'), "model.not_found"],
  [
    "bytes that are no UTF-8 in the model",
    chat(Buffer.from('{"model":"\xff\xfe"}', "latin1")),
    "dispatch.invalid_request",
  ],
  ["an unfinished string", chat('{"model":"primary'), "dispatch.invalid_request"],
  ["an unfinished escape", chat('{"model":"primary\\'), "dispatch.invalid_request"],
  ["no model", chat('{"messages":[]}'), "dispatch.missing_model"],
  ["an empty model", chat('{"model":""}'), "dispatch.missing_model"],
  ["a model that is a number", chat('{"model":1}'), "dispatch.missing_model"],
  ["a model that is null", chat('{"model":null}'), "dispatch.missing_model"],
  ["a model that is an object", chat('{"model":{"a":"primary"}}'), "dispatch.missing_model"],
  ["a model hidden deeper", chat('{"a":{"model":"primary"}}'), "dispatch.missing_model"],
  ["two models", chat('{"model":"primary","model":"primary"}'), "dispatch.invalid_request"],
  ["a model for readers that fold case", chat('{"model":"primary","Model":"other"}'), "dispatch.invalid_request"],
  ["a model in capitals alone", chat('{"MODEL":"primary"}'), "dispatch.invalid_request"],
  ["a model with escapes", chat('{"mod\\u0065l":"primary"}'), "dispatch.invalid_request"],
  ["two models, one with escapes", chat('{"model":"primary","mod\\u0065l":"x"}'), "dispatch.invalid_request"],
  ["two models, one with escaped capitals", chat('{"model":"primary","\\u004dodel":"x"}'), "dispatch.invalid_request"],
  ["stream twice", chat('{"model":"primary","stream":false,"stream":true}'), "dispatch.invalid_request"],
  ["stream for readers that fold case", chat('{"model":"primary","Stream":true}'), "dispatch.invalid_request"],
  ["stream with a long s", chat('{"model":"primary","\u017ftream":true}'), "dispatch.invalid_request"],
  [
    "two models for a provider of images",
    post("/v1/images/generations", '{"model":"img","prompt":"a","MODEL":"b"}'),
    "dispatch.invalid_request",
  ],
  ["an unknown model", chat('{"model":"nothing"}'), "model.not_found"],
  ["a model called __proto__", chat('{"model":"__proto__"}'), "model.not_found"],
  ["a model called constructor", chat('{"model":"constructor"}'), "model.not_found"],
  ["a very long model", chat(`{"model":"${"m".repeat(100_000)}"}`), "model.not_found"],
  [
    "a slot of another kind",
    post("/v1/audio/speech", '{"model":"primary","input":"x","voice":"v"}'),
    "dispatch.capability_mismatch",
  ],
  ["nesting without end", chat(`{"model":"nothing","messages":${deep}}`), "dispatch.invalid_request"],
  [
    "what is refused by the engine because it is no JSON",
    chat('{"model":"primary","messages":[1,]}'),
    "dispatch.invalid_request",
  ],
  [
    "another content type",
    post("/v1/chat/completions", "<a/>", ["content-type: text/xml"]),
    "dispatch.unsupported_media_type",
  ],
  [
    "an unknown content encoding",
    post("/v1/chat/completions", "x", ["content-encoding: rot13"]),
    "dispatch.unsupported_media_type",
  ],
  ["bytes that are no gzip", post("/v1/chat/completions", "x", ["content-encoding: gzip"]), "dispatch.invalid_request"],
  [
    "a gzip bomb",
    post("/v1/chat/completions", gzipSync(Buffer.alloc(4 * 1024 * 1024)), ["content-encoding: gzip"]),
    "dispatch.payload_too_large",
  ],
  ["too long a body", chat("x".repeat(2 * 1024 * 1024)), "dispatch.payload_too_large"],
  [
    "too long a body in chunks",
    `POST /v1/chat/completions HTTP/1.1\r\nhost: berth\r\ntransfer-encoding: chunked\r\n\r\n200000\r\n${"x".repeat(0x200000)}\r\n0\r\n\r\n`,
    "dispatch.payload_too_large",
  ],
  [
    "two content lengths",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: berth\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}}",
    "dispatch.invalid_request",
  ],
  [
    "a content length beside chunks",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: berth\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "dispatch.invalid_request",
  ],
  [
    "chunks and then something",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: berth\r\ntransfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "dispatch.invalid_request",
  ],
  [
    "a chunk size that is none",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: berth\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
    "dispatch.invalid_request",
  ],
  [
    "a negative content length",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: berth\r\ncontent-length: -1\r\n\r\n",
    "dispatch.invalid_request",
  ],
  [
    "a header with a space in its name",
    "GET /v1/models HTTP/1.1\r\nhost: berth\r\nbad header: x\r\n\r\n",
    "dispatch.invalid_request",
  ],
  [
    "a header that is folded",
    "GET /v1/models HTTP/1.1\r\nhost: berth\r\na: b\r\n c\r\n\r\n",
    "dispatch.invalid_request",
  ],
  ["no host", "GET /v1/models HTTP/1.1\r\n\r\n", "dispatch.invalid_request"],
  [
    "headers without end",
    `GET /v1/models HTTP/1.1\r\nhost: berth\r\nx: ${"y".repeat(100_000)}\r\n\r\n`,
    "dispatch.invalid_request",
  ],
  ["no HTTP at all", "hello\r\n\r\n", "dispatch.invalid_request"],
  ["an unknown method", "FROB /v1/models HTTP/1.1\r\nhost: berth\r\n\r\n", "dispatch.invalid_request"],
  ["a method that may have a body", "QUERY /v1/models HTTP/1.1\r\nhost: berth\r\n\r\n", "system.method_not_allowed"],
  [
    "bytes that are no UTF-8",
    chat(Buffer.from('{"model":"primary","messages":[{"role":"user","content":"\xff"}]}', "latin1")),
    "dispatch.invalid_request",
  ],
  [
    "half a character of UTF-8",
    post("/v1/images/generations", Buffer.from('{"model":"img","prompt":"\xc3"}', "latin1")),
    "dispatch.invalid_request",
  ],
  [
    "a field of a form that is no UTF-8",
    form(
      Buffer.from(
        `${part("model", "stt")}${part("language", "\xff")}${part("file", "x", '; filename="a"')}--b--\r\n`,
        "latin1",
      ),
    ),
    "dispatch.invalid_request",
  ],
  ["the wrong method", "GET /v1/chat/completions HTTP/1.1\r\nhost: berth\r\n\r\n", "system.method_not_allowed"],
  ["the wrong method on a GET route", post("/v1/models", "{}"), "system.method_not_allowed"],
  [
    "an expectation nobody knows",
    "GET /v1/models HTTP/1.1\r\nhost: berth\r\nexpect: miracles\r\n\r\n",
    "dispatch.invalid_request",
  ],
  ["an unknown path", "GET /v2/models HTTP/1.1\r\nhost: berth\r\n\r\n", "system.not_found"],
  ["a path with a broken escape", "GET /v1/models/%zz HTTP/1.1\r\nhost: berth\r\n\r\n", "dispatch.invalid_request"],
  ["an unknown model by id", "GET /v1/models/a/b:c HTTP/1.1\r\nhost: berth\r\n\r\n", "model.not_found"],
  [
    "a path that climbs",
    "GET /api/images/cache/..%2f..%2foperator.json HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "system.not_found",
  ],
  ["rerank without documents", post("/v1/rerank", '{"model":"primary","query":"q"}'), "dispatch.invalid_request"],
  [
    "rerank of numbers",
    post("/v1/rerank", '{"model":"primary","query":"q","documents":[1]}'),
    "dispatch.invalid_request",
  ],
  [
    "rerank with nesting without end",
    post("/v1/rerank", `{"model":"primary","query":"q","documents":["d"],"x":${deep}}`),
    "dispatch.invalid_request",
  ],
  [
    "nesting without end where the slot has rules",
    chat(`{"model":"ruled","messages":${deep}}`),
    "dispatch.invalid_request",
  ],
  [
    "an image of no size",
    post("/v1/images/generations", '{"model":"img","prompt":"a","size":"63x64"}'),
    "dispatch.invalid_request",
  ],
  [
    "an image as a stream",
    post("/v1/images/generations", '{"model":"img","prompt":"a","stream":true}'),
    "dispatch.invalid_request",
  ],
  ["an image of nothing", post("/v1/images/generations", '{"model":"img"}'), "dispatch.invalid_request"],
  ["speech without words", post("/v1/audio/speech", '{"model":"primary","voice":"v"}'), "dispatch.invalid_request"],
  [
    "a transcription that is JSON",
    post("/v1/audio/transcriptions", '{"model":"stt"}'),
    "dispatch.unsupported_media_type",
  ],
  [
    "a form without a boundary",
    post("/v1/audio/transcriptions", "x", ["content-type: multipart/form-data"]),
    "dispatch.invalid_request",
  ],
  ["a form of nothing", form(""), "dispatch.invalid_request"],
  ["a form that never begins", form("hello"), "dispatch.invalid_request"],
  ["a form that does not end", form(part("model", "primary")), "dispatch.invalid_request"],
  ["a form without a file", form(`${part("model", "stt")}--b--\r\n`), "dispatch.invalid_request"],
  ["a form without a model", form(`${part("file", "audio", '; filename="a.wav"')}--b--\r\n`), "dispatch.missing_model"],
  [
    "a form with two models",
    form(`${part("model", "stt")}${part("model", "other")}--b--\r\n`),
    "dispatch.invalid_request",
  ],
  [
    "a form with one model twice",
    form(`${part("model", "stt")}${part("model", "stt")}--b--\r\n`),
    "dispatch.invalid_request",
  ],
  [
    "a form with a model for readers that fold case",
    form(`${part("Model", "x")}--b--\r\n`),
    "dispatch.invalid_request",
  ],
  [
    "a form with a format for who folds case",
    form(`${part("Response_Format", "x")}--b--\r\n`),
    "dispatch.invalid_request",
  ],
  [
    "a part without a name",
    form("--b\r\ncontent-disposition: form-data\r\n\r\nx\r\n--b--\r\n"),
    "dispatch.invalid_request",
  ],
];

const jsonType = "application/json";
/** Nothing is wrong with them until they are garbled; the engine refuses them all. Messages: `protocols/garbage.test.ts`. */
const sound: readonly (readonly [path: string, type: string, body: string])[] = [
  ["/v1/chat/completions", jsonType, '{"model":"primary","messages":[{"role":"user","content":"hé"}],"stream":true}'],
  ["/v1/chat/completions", jsonType, '{"stream_options":{},"model":"ruled","messages":[],"tools":[{}]}'],
  ["/v1/completions", jsonType, '{"prompt":["a"],"model":"primary"}'],
  ["/v1/embeddings", jsonType, '{"model":"primary","input":["a"]}'],
  ["/v1/responses", jsonType, '{"model":"primary","input":"x"}'],
  ["/rerank", jsonType, '{"model":"primary","query":"q","documents":["a",{"text":"b"}],"top_n":1}'],
  ["/v1/audio/speech", jsonType, '{"model":"primary","input":"x","voice":"v","speed":1}'],
  ["/v1/images/generations", jsonType, '{"model":"img","prompt":"a","n":1,"size":"64x64","extra_body":{"seed":1}}'],
  [
    "/v1/audio/transcriptions",
    "multipart/form-data; boundary=b",
    `${part("model", "stt")}${part("file", "audio", '; filename="a.wav"')}--b--\r\n`,
  ],
];
const scraps = [
  "",
  '"',
  "{",
  "}",
  "[",
  ",",
  "\\",
  "\\ud800",
  "\0",
  "\xff",
  "null",
  "1e999",
  "-1",
  "--b",
  "\r\n",
  "__proto__",
  '"model":"x",',
];

describe("bad input", () => {
  let engine: ScriptedEngine;
  let gateway: TestGateway;
  before(async () => {
    engine = await scriptedEngine((response) => json(response, { error: { message: "no" } }, 400));
    const slots = {
      primary: { port: engine.port },
      ruled: { port: engine.port, spec: { request: { set: { seed: 1 } } } },
      stt: { port: engine.port, status: { capabilities: ["transcription" as const] } },
      img: { spec: { engine: "image" as const, model: { default: "sdxl" } } },
    };
    gateway = await startGateway({ slots, env: { SVC_BODY_LIMIT: "1Mi", SVC_HOLD_SECONDS: "0" } });
  });
  after(async () => {
    await gateway[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });

  for (const [what, bytes, code] of corpus) {
    it(`${what}: ${code}`, async () => {
      const { status, head, body } = await rawExchange(gateway.url, bytes);
      assert.ok(status >= 400 && status < 500, `${status} ${body}`);
      assert.equal(envelopeIn(body).error.code, code);
      assert.match(head, /\r\nx-request-id: [A-Za-z0-9._-]+/i);
      assert.equal((await fetch(`${gateway.url}/livez`)).status, 200);
    });
  }

  it("a body of any route, however it is garbled: an envelope, and never a failure of ours", async () => {
    const edits = fc.array(fc.record({ at: fc.nat(400), cut: fc.nat(12), put: fc.constantFrom(...scraps) }), {
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...sound), edits, async ([path, type, text], each) => {
        let body = Buffer.from(text);
        for (const { at, cut, put } of each) {
          const from = at % (body.length + 1);
          body = Buffer.concat([body.subarray(0, from), Buffer.from(put, "latin1"), body.subarray(from + cut)]);
        }
        const answer = await gateway.post(path, body.toString("latin1"), {
          body: new Uint8Array(body),
          headers: { "content-type": type },
        });
        const { error } = envelopeIn(await answer.text());
        const isSlots = answer.status === 503 && error.code === "slot.not_ready";
        assert.ok((answer.status >= 400 && answer.status < 500) || isSlots, `${answer.status} ${error.code}`);
      }),
      { numRuns: 300 },
    );
    assert.equal((await fetch(`${gateway.url}/livez`)).status, 200);
  });

  it("says to a client of HTTP/2 that HTTP/1.1 is spoken", async () => {
    const client = http2(gateway.url).on("error", () => undefined);
    const [code, , reason]: unknown[] = await once(client, "goaway");
    assert.equal(code, constants.NGHTTP2_HTTP_1_1_REQUIRED);
    assert.equal(String(reason), "HTTP/2 is not supported: send HTTP/1.1");
    client.destroy();
    assert.equal((await fetch(`${gateway.url}/livez`)).status, 200);
  });

  it("takes the cookies of a single sign-on, which have tens of kilobytes", async () => {
    await using gateway = await startGateway();
    const answer = await fetch(`${gateway.url}/v1/models`, { headers: { cookie: `session=${"x".repeat(30_000)}` } });
    assert.equal(answer.status, 200);
  });

  it("answers headers that are too large with 431", async () => {
    const bytes = `GET /v1/models HTTP/1.1\r\nhost: berth\r\nx: ${"y".repeat(100_000)}\r\n\r\n`;
    assert.equal((await rawExchange(gateway.url, bytes)).status, 431);
  });

  it("says that a model must be a text", async () => {
    const wrong = envelopeIn((await rawExchange(gateway.url, chat('{"model":5}'))).body).error;
    assert.deepEqual([wrong.message, wrong.details?.["message"]], ["model must be a text", "must be a text"]);
    const missing = envelopeIn((await rawExchange(gateway.url, chat("{}"))).body).error;
    assert.equal(missing.details?.["message"], "is required");
  });

  it("asks no engine for a body that names two models", async () => {
    const before = engine.seen.length;
    const { body } = await rawExchange(gateway.url, chat('{"model":"primary","Model":"expensive","messages":[]}'));
    const { error } = envelopeIn(body);
    assert.deepEqual([error.message, error.details?.["path"]], ["model: must occur once, in this spelling", ["model"]]);
    assert.equal(engine.seen.length, before);
  });

  it("never shows a rejected value", async () => {
    const { body } = await rawExchange(gateway.url, chat('{"model":{"secret":"hunter2"}}'));
    assert.doesNotMatch(body, /hunter2/);
  });
});
