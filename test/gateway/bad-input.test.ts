import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { envelopeIn } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { rawExchange } from "../support/raw-http.ts";
import { json, scriptedEngine, type ScriptedEngine } from "../support/scripted-engine.ts";
import { fc, runs } from "../support/fast-check.ts";

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
const file = part("file", "audio", '; filename="a.wav"');
const MiB = 1024 * 1024;
const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;

/** Its body never comes. */
const begun = (method: string, path: string): string =>
  `${method} ${path} HTTP/1.1\r\nhost: berth\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{`;
const chunked = "POST /v1/chat/completions HTTP/1.1\r\nhost: berth\r\ntransfer-encoding: chunked\r\n\r\n";
const get = (path: string, ...headers: readonly string[]): string =>
  [`GET ${path} HTTP/1.1`, "host: berth", ...headers, "", ""].join("\r\n");
const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");
const rerank = (fields: string): Buffer => post("/v1/rerank", `{"model":"primary","query":"q"${fields}}`);
const image = (fields: string | Buffer): Buffer => post("/v1/images/generations", fields);

/**
 * THE CORPUS: what is wrong with a request, its bytes, and the code that answers it. Every failure found in the wild
 * becomes a line. All of them get an envelope with a 4xx: never a 5xx, a crash or a hang.
 */
const corpus: Readonly<Record<string, Readonly<Record<string, string | Buffer>>>> = {
  "dispatch.invalid_request": {
    "no body": chat(""),
    "a body that is no JSON": chat("hello"),
    "half a body of JSON": chat('{"model":"primary","messages":['),
    "JSON that is a list": chat("[]"),
    "JSON that is null": chat("null"),
    "two JSON texts": chat('{"model":"primary"}{"model":"primary"}'),
    "a byte order mark before nothing": chat("\uFEFF"),
    NULs: chat(Buffer.alloc(64)),
    "bytes that are no UTF-8 in the model": chat(latin1('{"model":"\xff\xfe"}')),
    "bytes that are no UTF-8": chat(latin1('{"model":"primary","messages":[{"role":"user","content":"\xff"}]}')),
    "half a character of UTF-8": image(latin1('{"model":"img","prompt":"\xc3"}')),
    "an unfinished string": chat('{"model":"primary'),
    "an unfinished escape": chat('{"model":"primary\\'),
    "two models": chat('{"model":"primary","model":"primary"}'),
    "a model for readers that fold case": chat('{"model":"primary","Model":"other"}'),
    "a model in capitals alone": chat('{"MODEL":"primary"}'),
    "a model with escapes": chat('{"mod\\u0065l":"primary"}'),
    "two models, one with escapes": chat('{"model":"primary","mod\\u0065l":"x"}'),
    "two models, one with escaped capitals": chat('{"model":"primary","\\u004dodel":"x"}'),
    "stream twice": chat('{"model":"primary","stream":false,"stream":true}'),
    "stream for readers that fold case": chat('{"model":"primary","Stream":true}'),
    "messages twice": chat('{"model":"primary","messages":[],"messages":[]}'),
    "tools in letters of another case": chat('{"model":"primary","messages":[],"Tools":[]}'),
    "a grammar with escapes": chat('{"model":"primary","messages":[],"gr\\u0061mmar":""}'),
    "two models for a provider of images": image('{"model":"img","prompt":"a","MODEL":"b"}'),
    "nesting without end": chat(`{"model":"nothing","messages":${deep}}`),
    "nesting without end where the slot has rules": chat(`{"model":"ruled","messages":${deep}}`),
    "what the engine refuses because it is no JSON": chat('{"model":"primary","messages":[1,]}'),
    "bytes that are no gzip": post("/v1/chat/completions", "x", ["content-encoding: gzip"]),
    "two content lengths":
      "POST /v1/responses HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}}",
    "a content length beside chunks": chunked.replace("\r\nhost", "\r\ncontent-length: 2\r\nhost"),
    "chunks and then something": chunked.replace("chunked", "chunked, gzip"),
    "a coding spelt with a tab": chunked.replace(" chunked", "\tchunked\t,x"),
    "a chunk size that is none": `${chunked}xyz\r\n`,
    "a chunk size beyond counting": `${chunked}FFFFFFFFFFFFFFFFF\r\n{}`,
    "a bare newline between headers": get("/v1/models", "a: b\nc: d"),
    "a NUL in a header": get("/v1/models", "a: b\0c"),
    "a hexadecimal content length": chunked.replace("transfer-encoding: chunked", "content-length: 0x5"),
    "a negative content length": "POST /v1/chat/completions HTTP/1.1\r\nhost: berth\r\ncontent-length: -1\r\n\r\n",
    "a header with a space in its name": get("/v1/models", "bad header: x"),
    "a header that is folded": get("/v1/models", "a: b", " c"),
    "no host": "GET /v1/models HTTP/1.1\r\n\r\n",
    "headers without end": get("/v1/models", `x: ${"y".repeat(100_000)}`),
    "no HTTP at all": "hello\r\n\r\n",
    "an unknown method": "FROB /v1/models HTTP/1.1\r\nhost: berth\r\n\r\n",
    "an expectation nobody knows": get("/v1/models", "expect: miracles"),
    "a path with a broken escape": get("/v1/models/%zz"),
    "rerank without documents": rerank(""),
    "rerank of numbers": rerank(',"documents":[1]'),
    "rerank with nesting without end": rerank(`,"documents":["d"],"x":${deep}`),
    "an image of no size": image('{"model":"img","prompt":"a","size":"63x64"}'),
    "an image as a stream": image('{"model":"img","prompt":"a","stream":true}'),
    "an image of nothing": image('{"model":"img"}'),
    "speech without words": post("/v1/audio/speech", '{"model":"primary","voice":"v"}'),
    "a form without a boundary": post("/v1/audio/transcriptions", "x", ["content-type: multipart/form-data"]),
    "a field of a form that is no UTF-8": form(
      latin1(`${part("model", "stt")}${part("language", "\xff")}${file}--b--\r\n`),
    ),
    "a form of nothing": form(""),
    "a form that never begins": form("hello"),
    "a form that does not end": form(part("model", "primary")),
    "a form without a file": form(`${part("model", "stt")}--b--\r\n`),
    "a form with two models": form(`${part("model", "stt")}${part("model", "other")}--b--\r\n`),
    "a form with one model twice": form(`${part("model", "stt")}${part("model", "stt")}--b--\r\n`),
    "a form with a model for readers that fold case": form(`${part("Model", "x")}--b--\r\n`),
    "a form with a format for who folds case": form(`${part("Response_Format", "x")}--b--\r\n`),
    "a part without a name": form("--b\r\ncontent-disposition: form-data\r\n\r\nx\r\n--b--\r\n"),
  },
  "dispatch.missing_model": {
    "no model": chat('{"messages":[]}'),
    "an empty model": chat('{"model":""}'),
    "a model that is a number": chat('{"model":1}'),
    "a model that is null": chat('{"model":null}'),
    "a model that is an object": chat('{"model":{"a":"primary"}}'),
    "a model hidden deeper": chat('{"a":{"model":"primary"}}'),
    "a form without a model": form(`${file}--b--\r\n`),
  },
  "model.not_found": {
    "a bare surrogate in the model": chat('{"model":"\\ud800"}'),
    "an unknown model": chat('{"model":"nothing"}'),
    "a model called __proto__": chat('{"model":"__proto__"}'),
    "a model called constructor": chat('{"model":"constructor"}'),
    "a very long model": chat(`{"model":"${"m".repeat(100_000)}"}`),
    "an unknown model by id": get("/v1/models/a/b:c"),
  },
  "dispatch.capability_mismatch": {
    "a slot of another kind": post("/v1/audio/speech", '{"model":"primary","input":"x","voice":"v"}'),
  },
  "dispatch.unsupported_media_type": {
    "another content type": post("/v1/chat/completions", "<a/>", ["content-type: text/xml"]),
    "an unknown content encoding": post("/v1/chat/completions", "x", ["content-encoding: rot13"]),
    "a transcription that is JSON": post("/v1/audio/transcriptions", '{"model":"stt"}'),
  },
  "dispatch.payload_too_large": {
    "a gzip bomb": post("/v1/chat/completions", gzipSync(Buffer.alloc(4 * MiB)), ["content-encoding: gzip"]),
    "too long a body": chat("x".repeat(2 * MiB)),
    "too long a body in chunks": `${chunked}200000\r\n${"x".repeat(2 * MiB)}\r\n0\r\n\r\n`,
  },
  "system.method_not_allowed": {
    "a body for a wrong method": begun("PUT", "/v1/chat/completions"),
    "a body for a route without one": begun("POST", "/v1/models"),
    "a method that may have a body": "QUERY /v1/models HTTP/1.1\r\nhost: berth\r\n\r\n",
    "the wrong method": get("/v1/chat/completions"),
    "the wrong method on a GET route": post("/v1/models", "{}"),
  },
  "system.not_found": {
    "a body for a wrong path": begun("POST", "/v1/nope"),
    "a body for a wrong path outside of /v1": begun("POST", "/nope"),
    "an unknown path": get("/v2/models"),
    "a path that climbs": get("/api/images/cache/..%2f..%2foperator.json").replace("berth", "localhost"),
  },
};

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
  ["/v1/audio/transcriptions", "multipart/form-data; boundary=b", `${part("model", "stt")}${file}--b--\r\n`],
];
const signs = ["", '"', "{", "}", "[", ",", "\\", "\\ud800", "\0", "\xff", "\r\n", "--b"];
const scraps = [...signs, "null", "1e999", "-1", "__proto__", '"model":"x",'];

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

  for (const [code, requests] of Object.entries(corpus))
    it(`is answered with ${code}, and the gateway goes on`, async () => {
      for (const [what, bytes] of Object.entries(requests)) {
        const { status, head, body } = await rawExchange(gateway.url, bytes);
        assert.ok(status >= 400 && status < 500, `${what}: ${status} ${body}`);
        assert.equal(envelopeIn(body).error.code, code, what);
        assert.match(head, /\r\nx-request-id: [A-Za-z0-9._-]+/i, what);
      }
      assert.equal((await fetch(`${gateway.url}/livez`)).status, 200);
    });

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
      { numRuns: runs(100) },
    );
    assert.equal((await fetch(`${gateway.url}/livez`)).status, 200);
  });

  it("is not a cookie of a single sign-on of tens of kilobytes; headers that are too large get 431", async () => {
    const cookie = `session=${"x".repeat(30_000)}`;
    assert.equal((await fetch(`${gateway.url}/v1/models`, { headers: { cookie } })).status, 200);
    assert.equal((await rawExchange(gateway.url, get("/v1/models", `x: ${"y".repeat(100_000)}`))).status, 431);
  });

  it("names its field and never its value, and no engine gets it", async () => {
    const seen = engine.seen.length;
    const once = "must occur once, in this spelling";
    for (const [body, message, rule] of [
      ['{"model":{"secret":"hunter2"}}', "model must be a text", "must be a text"],
      ["{}", "The request names no model", "is required"],
      ['{"model":"primary","Model":"x"}', `model: ${once}`, once],
    ] as const) {
      const { error } = envelopeIn((await rawExchange(gateway.url, chat(body))).body);
      assert.deepEqual([error.message, error.details?.["message"]], [message, rule]);
      assert.deepEqual(error.details?.["path"], ["model"]);
    }
    assert.equal(engine.seen.length, seen);
  });
});
