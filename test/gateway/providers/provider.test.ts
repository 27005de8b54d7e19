import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import type { Transport } from "../../../src/lib/exchange.ts";
import type { Fault } from "../../doubles/provider.ts";
import { sayHello, scriptedEngine } from "../../support/scripted-engine.ts";
import { answerOf, ask, bearer, failureOf, openProvider, secretKey, site, status, textOf, times } from "./fixture.ts";

describe("a request to a provider", () => {
  it("carries the key, the upstream's headers and nothing of the client's", async () => {
    await using at = await site({ ...bearer, headers: { "X-Team": "berth" } });
    assert.match(await answerOf(at.ask()), /"content":"Hello there\."/);
    const { host: _host, ...headers } = at.double.asked[0]?.headers ?? {};
    assert.deepEqual(headers, {
      connection: "keep-alive",
      "user-agent": "berth",
      "accept-encoding": "identity",
      "x-team": "berth",
      authorization: `Bearer ${secretKey}`,
      "content-type": "application/json",
      "content-length": "36",
      accept: "application/json",
      "x-request-id": "request-1",
    });
    assert.deepEqual([at.outcomes, at.problems], [["200"], []]);
  });

  it("may be signed by another header, or not at all", async () => {
    await using signed = await site({ auth: { type: "header", header: "X-Api-Key", valueFrom: { env: "ACME_KEY" } } });
    await using plain = await site();
    const keys = [];
    for (const at of [signed, plain]) {
      await answerOf(at.ask());
      const { "x-api-key": key, authorization } = at.double.asked[0]?.headers ?? {};
      keys.push([key, authorization]);
    }
    assert.deepEqual(keys, [
      [secretKey, undefined],
      [undefined, undefined],
    ]);
  });

  it("has its path below the upstream's address, with the query of that", async () => {
    for (const [base, path, asked] of [
      ["/v1", "/v1/chat/completions", "/v1/chat/completions"],
      ["/v1/", "/v1/embeddings", "/v1/embeddings"],
      ["/openai/v1?api-version=7", "/v1/embeddings", "/openai/v1/embeddings?api-version=7"],
      ["", "/v1/rerank", "/rerank"],
      ["/v1beta/openai", "/v1/models", "/v1beta/openai/models"],
    ] as const) {
      await using open = openProvider({ baseUrl: `https://api.example.com${base}` });
      assert.equal(open.provider.address(path), asked, base);
    }
  });

  it("sends a body in parts, whole, also when it has to be sent again", async () => {
    await using at = await site();
    at.double.fail({ kind: "drop" });
    const parts = ['{"model":"', "gpt-double", `","input":"${"x".repeat(1_000_000)}"}`];
    await answerOf(at.ask({ path: "/v1/embeddings", body: parts.map((part) => Buffer.from(part)) }));
    assert.equal(at.double.posts.length, 2);
    for (const { body: sent, headers } of at.double.posts) {
      assert.equal(sent, parts.join(""));
      assert.equal(headers["transfer-encoding"], undefined);
    }
  });

  it("passes on the headers of the answer that clients need", async () => {
    await using at = await site();
    const asked = at.ask({ accept: "text/event-stream", body: [Buffer.from('{"model":"m","stream":true}')] });
    assert.match(await answerOf(asked), /^data: .*\n\ndata: \[DONE\]\n\n$/s);
    assert.deepEqual([asked.head?.contentType, asked.head?.contentLength], ["text/event-stream", undefined]);
    assert.equal(at.double.posts[0]?.headers.accept, "text/event-stream");
  });

  it("is not answered by an informational response", async () => {
    await using engine = await scriptedEngine((response, seen) => {
      response.writeEarlyHints({ link: "</style.css>; rel=preload" });
      sayHello(response, seen);
    });
    await using open = openProvider({ baseUrl: `http://127.0.0.1:${engine.port}/v1` });
    const asked = ask(open.provider);
    assert.match(await answerOf(asked), /hello/);
    assert.equal(asked.head?.status, 200);
  });
});

describe("a provider that fails", () => {
  const failed = "dispatch.upstream_failed";
  const refused = "upstream acme refused Berth's own credentials";
  const gzip = status(200, { "content-encoding": "gzip" });
  const voiceless = status(400, {}, '{"error":{"message":"no such voice"}}');
  const closed = "upstream acme closed the connection without an answer (UND_ERR_SOCKET)";
  const kinds: readonly (readonly [fault: Fault, tries: number, code: string, status: number, message: string])[] = [
    [status(500), 1, failed, 502, "upstream acme answered 500"],
    [status(502), 2, failed, 502, "upstream acme answered 502"],
    [status(503), 2, "dispatch.upstream_unavailable", 502, "upstream acme answered 503"],
    [status(504), 2, "dispatch.upstream_timeout", 504, "upstream acme answered 504"],
    [status(204, {}, ""), 1, failed, 502, "upstream acme answered 204"],
    [status(302, { location: "/" }), 1, failed, 502, "upstream acme answered 302"],
    [status(401), 1, failed, 502, `${refused} (401)`],
    [status(403), 1, failed, 502, `${refused} (403)`],
    [status(404), 1, "dispatch.rejected", 404, "upstream acme answered 404"],
    [voiceless, 1, "dispatch.rejected", 400, "no such voice"],
    [gzip, 1, failed, 502, "upstream acme answers in an encoding that was not requested"],
    [{ kind: "garbage" }, 1, failed, 502, "the answer of upstream acme is no HTTP"],
    [{ kind: "drop" }, 2, failed, 502, closed],
  ];
  for (const [fault, tries, code, answered, message] of kinds) {
    it(`is reported as ${code} after ${tries} tries: ${message}`, async () => {
      await using at = await site();
      at.double.fail(...times(tries, fault));
      const failure = await failureOf(at.ask());
      assert.deepEqual([failure.code, failure.status, failure.message], [code, answered, message]);
      assert.equal(at.double.posts.length, tries);
    });
  }

  it("gets a request as often as `retries` allows, and then no more", async () => {
    await using at = await site({ retries: 3 });
    at.double.fail(status(503), { kind: "drop" }, status(502));
    assert.match(await answerOf(at.ask()), /Hello/);
    assert.deepEqual(at.outcomes, ["503", "retry", "broken", "retry", "502", "retry", "200"]);
    await using never = await site({ retries: 0 });
    never.double.fail(status(503));
    await failureOf(never.ask());
    assert.deepEqual(never.outcomes, ["503"]);
  });

  it("is left alone in an error without end before it gets the request again", async (t) => {
    await using open = openProvider({ baseUrl: "http://127.0.0.1:9/v1", retries: 1 });
    const refusing: Transport = {
      send: (_request, _options, events) => {
        queueMicrotask(() => {
          events.onHead({ status: 503, contentType: undefined, contentLength: undefined, isKeptAlive: true });
          events.onData(Buffer.alloc(65_536));
        });
        return { pause: () => undefined, resume: () => undefined, abort: () => void open.outcomes.push("left") };
      },
    };
    t.mock.method(open.provider, "transport", () => Promise.resolve(refusing));
    await failureOf(ask(open.provider));
    assert.deepEqual(open.outcomes, ["503", "left", "retry", "503", "left"]);
  });

  it("gets no request before its Retry-After is over, in seconds or as a date", async () => {
    await using at = await site();
    for (const retryAfter of ["120", new Date(Date.now() + 120_000).toUTCString()]) {
      at.double.fail(status(503, { "retry-after": retryAfter }));
      assert.deepEqual((await failureOf(at.ask())).headers, { "retry-after": retryAfter });
    }
    assert.equal(at.double.posts.length, 2);
    at.double.fail(status(503, { "retry-after": new Date(0).toUTCString() }));
    await answerOf(at.ask());
    at.double.fail(status(429, { "retry-after": "7" }, '{"error":{"message":"slow down"}}'));
    const busy = await failureOf(at.ask());
    assert.deepEqual([busy.code, busy.status, busy.message], ["dispatch.rejected", 429, "slow down"]);
    assert.deepEqual(
      [busy.headers, busy.details],
      [{ "retry-after": "7" }, { upstream: { error: { message: "slow down" } } }],
    );
    at.double.fail(status(400, {}, `${"[".repeat(30_000)}${"]".repeat(30_000)}`));
    assert.deepEqual((await failureOf(at.ask())).details, { upstream: "[".repeat(2000) }, "endlessly nested");
  });

  it("times out where it does not answer within its limit, and is not retried", async () => {
    await using at = await site({ timeoutSeconds: 0.05 });
    at.double.fail({ kind: "hang" });
    assert.equal((await failureOf(at.ask())).code, "dispatch.upstream_timeout");
    assert.deepEqual(at.outcomes, ["timeout"]);
  });

  it("gets no request again once a byte was relayed", async () => {
    await using at = await site();
    at.double.fail({ kind: "cut" });
    const asked = at.ask();
    await asked.ended;
    assert.match(textOf(asked), /half/);
    assert.deepEqual([asked.ends, asked.failure?.code], [1, "dispatch.upstream_failed"]);
    assert.match(asked.failure?.message ?? "", /^upstream acme broke off within its answer/);
    assert.equal(at.double.posts.length, 1);
  });

  it("fails a request whose client cannot be loaded, and that one alone", async (t) => {
    await using at = await site();
    const pool = t.mock.method(at.provider, "transport", () =>
      Promise.reject(new Error("EMFILE: too many open files")),
    );
    const failure = await failureOf(at.ask());
    assert.deepEqual([failure.code, failure.message.includes("EMFILE")], ["system.internal", false]);
    pool.mock.restore();
    await answerOf(at.ask());
    assert.deepEqual(at.outcomes, ["broken", "200"]);
  });

  it("gets no request after five failures in a row, then a single trial after a while", async () => {
    await using at = await site({ retries: 0 });
    at.double.fail(...times(5, status(503)));
    for (let index = 0; index < 5; index++) await failureOf(at.ask());
    assert.equal(at.provider.state, "open");
    const refused = await failureOf(at.ask());
    assert.deepEqual([refused.code, refused.headers], ["dispatch.upstream_unavailable", { "retry-after": "10" }]);
    assert.equal(at.double.posts.length, 5);
    at.clock.ms = 10_000;
    const [trial, other] = [at.ask(), at.ask()];
    await answerOf(trial);
    await failureOf(other);
    assert.equal(at.provider.state, "closed");
    await answerOf(at.ask());
  });

  it("keeps its single trial when this process lacks a descriptor for it", async () => {
    await using double = await site();
    let isShort = false;
    await using open = openProvider(
      { baseUrl: double.double.baseUrl.replace("127.0.0.1", "localhost"), retries: 1 },
      {
        lookup: (_name, _options, done) => {
          const error = isShort ? Object.assign(new Error("no more files"), { code: "EMFILE" }) : null;
          isShort = false;
          done(error, [{ address: "127.0.0.1", family: 4 }]);
        },
      },
    );
    double.double.fail(...times(5, status(503, { connection: "close" })));
    for (let index = 0; index < 3; index++) await failureOf(ask(open.provider));
    assert.equal(open.provider.state, "open");
    open.clock.ms = 10_000;
    isShort = true;
    await answerOf(ask(open.provider));
    assert.ok(open.outcomes.includes("shortage"));
    assert.equal(open.provider.state, "closed");
  });

  it("gets no request for a model that keeps failing, and others for its other models", async () => {
    await using at = await site({ retries: 0 });
    const body = (text: string) => [Buffer.from(JSON.stringify({ model: "sick", text }))];
    at.double.fail(...times(5, status(500)));
    for (const text of "abcde") await failureOf(at.ask({ model: "sick", body: body(text) }));
    const refused = await failureOf(at.ask({ model: "sick", body: body("f") }));
    assert.match(refused.message, /^upstream acme keeps failing for this model;/);
    assert.equal(refused.headers["retry-after"], "10");
    await answerOf(at.ask());
  });

  it("stays in service where it refuses requests, with a 500 too", async () => {
    await using at = await site();
    for (const refusal of [
      status(400),
      status(500, {}, '{"error":{"message":"image input is not supported","code":500}}'),
    ]) {
      at.double.fail(...times(6, refusal));
      for (let index = 0; index < 6; index++) assert.equal((await failureOf(at.ask())).code, "dispatch.rejected");
      assert.equal(at.provider.state, "closed");
    }
  });
});

describe("a provider's key", () => {
  for (const code of [400, 401, 429, 500, 503]) {
    it(`is masked everywhere when the provider echoes it with ${code}`, async () => {
      await using at = await site({ ...bearer, retries: 0 });
      const headers = {
        "x-echo": secretKey,
        "retry-after": secretKey,
        "content-disposition": `attachment; filename="${secretKey}"`,
        "content-type": "application/json",
      };
      const error = { message: `bad key ${secretKey} ESCAPED`, headers: { authorization: secretKey } };
      const escaped = secretKey.replaceAll(/./g, (each) => `\\u00${each.charCodeAt(0).toString(16)}`);
      at.double.fail(status(code, headers, JSON.stringify({ error }).replace("ESCAPED", escaped)));
      const asked = at.ask();
      await asked.ended;
      const { failure, head } = asked;
      const envelope = [failure?.envelope(), failure?.headers, failure?.engineText, head];
      const shown = [textOf(asked), JSON.stringify(envelope), failure?.stack, inspect(failure), ...at.problems];
      assert.ok(at.double.posts[0]?.headers.authorization?.includes(secretKey), "the provider had it");
      assert.doesNotMatch(shown.join("\n"), /sk-live/);
    });
  }

  it("that is missing is reported to the client, and its place only in the log", async () => {
    await using at = await site({ auth: { type: "bearer", valueFrom: { file: "/nonexistent/key" } } });
    const failure = await failureOf(at.ask());
    assert.equal(failure.code, "dispatch.upstream_failed");
    assert.equal(failure.message, "upstream acme has no usable key; the gateway's log names the reason");
    assert.doesNotMatch(JSON.stringify(failure.envelope()), /nonexistent/);
    const problems = ["the file /nonexistent/key does not exist"];
    assert.deepEqual([at.problems, at.double.asked.length, at.outcomes], [problems, 0, ["no_key"]]);
  });

  it("that the provider refuses is reported in the log", async () => {
    await using at = await site(bearer, { double: { key: "another-key" } });
    await failureOf(at.ask());
    assert.deepEqual(at.problems, ["the provider refused the key (401)"]);
  });
});
