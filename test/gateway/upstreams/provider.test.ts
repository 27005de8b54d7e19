import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ApiError } from "../../../src/api/errors.ts";
import type { Upload } from "../../../src/lib/exchange.ts";
import { startProvider, type Fault } from "../../doubles/provider.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { freePort } from "../../support/free-port.ts";
import { sayHello, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { answerOf, ask, bearer, failureOf, openProvider, secretKey, textOf, type Ask } from "./fixture.ts";

const status = (code: number, headers: Record<string, string> = {}, body = "{}"): Fault => ({
  kind: "answer",
  status: code,
  headers,
  body,
});

describe("a request to a provider", () => {
  it("carries the key, the upstream's headers and nothing of the client's", async () => {
    await using double = await startProvider({ key: secretKey });
    await using open = openProvider({ baseUrl: double.baseUrl, ...bearer, headers: { "X-Team": "berth" } });
    const body = await answerOf(ask(open.provider));
    assert.match(body, /"content":"Hello there\."/);
    const [asked] = double.asked;
    const { host: _host, ...headers } = asked?.headers ?? {};
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
    assert.deepEqual(open.outcomes, ["200"]);
    assert.deepEqual(open.problems, []);
  });

  it("may be signed by another header, or not at all", async () => {
    await using double = await startProvider();
    await using signed = openProvider({
      baseUrl: double.baseUrl,
      auth: { type: "header", header: "X-Api-Key", valueFrom: { env: "ACME_KEY" } },
    });
    await using plain = openProvider({ baseUrl: double.baseUrl });
    await answerOf(ask(signed.provider));
    await answerOf(ask(plain.provider));
    const [first, second] = double.asked;
    assert.equal(first?.headers["x-api-key"], secretKey);
    assert.equal(first?.headers.authorization, undefined);
    assert.equal(second?.headers["x-api-key"], undefined);
    assert.equal(second?.headers.authorization, undefined);
  });

  const addresses: readonly (readonly [base: string, path: string, asked: string])[] = [
    ["/v1", "/v1/chat/completions", "/v1/chat/completions"],
    ["/v1/", "/v1/embeddings", "/v1/embeddings"],
    ["/openai/v1?api-version=7", "/v1/embeddings", "/openai/v1/embeddings?api-version=7"],
    ["", "/v1/rerank", "/rerank"],
    ["/v1beta/openai", "/v1/models", "/v1beta/openai/models"],
  ];
  for (const [base, path, asked] of addresses) {
    it(`has the address ${asked} for ${path} under "${base}"`, async () => {
      await using open = openProvider({ baseUrl: `https://api.example.com${base}` });
      assert.equal(open.provider.address(path), asked);
    });
  }

  it("sends a body in parts, whole, also when it has to be sent again", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail({ kind: "drop" });
    const big = "x".repeat(1_000_000);
    const body = ['{"model":"', "gpt-double", `","input":"${big}"}`].map((part) => Buffer.from(part));
    await answerOf(ask(open.provider, { path: "/v1/embeddings", body }));
    assert.equal(double.posts.length, 2);
    for (const { body: sent, headers } of double.posts) {
      assert.equal(sent, Buffer.concat(body).toString());
      assert.equal(headers["transfer-encoding"], undefined);
    }
  });

  it("passes on the headers of the answer that clients need, and no others", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const body = [Buffer.from('{"model":"m","stream":true}')];
    const asked = ask(open.provider, { accept: "text/event-stream", body });
    const text = await answerOf(asked);
    assert.match(text, /^data: .*\n\n/);
    assert.ok(text.endsWith("data: [DONE]\n\n"));
    assert.deepEqual([asked.head?.contentType, asked.head?.contentLength], ["text/event-stream", undefined]);
    assert.equal(double.posts[0]?.headers.accept, "text/event-stream");
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

  it("keeps connections, and replaces a connection that the provider has closed", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    await answerOf(ask(open.provider));
    await nextTurn();
    await answerOf(ask(open.provider));
    assert.equal(double.posts[1]?.connection, 0);
    double.closeIdle();
    await until("the connection is closed", () => double.openConnections === 0);
    await answerOf(ask(open.provider));
    assert.equal(double.posts[2]?.connection, 1);
  });

  it("has the newest key of a file", async () => {
    await using dir = await tempDir();
    await using double = await startProvider();
    const file = join(dir.path, "key");
    await writeFile(file, "first-key");
    await using open = openProvider({ baseUrl: double.baseUrl, auth: { type: "bearer", valueFrom: { file } } });
    await answerOf(ask(open.provider));
    await writeFile(file, "second-key");
    open.clock.ms = 1000;
    await answerOf(ask(open.provider));
    assert.deepEqual(
      double.posts.map(({ headers }) => headers.authorization),
      ["Bearer first-key", "Bearer second-key"],
    );
  });
});

describe("a provider that fails", () => {
  const kinds: readonly (readonly [fault: Fault, tries: number, code: string, status: number, message: string])[] = [
    [status(500), 1, "dispatch.upstream_failed", 502, "upstream acme answered 500"],
    [status(502), 2, "dispatch.upstream_failed", 502, "upstream acme answered 502"],
    [status(503), 2, "dispatch.upstream_unavailable", 502, "upstream acme answered 503"],
    [status(504), 2, "dispatch.upstream_timeout", 504, "upstream acme answered 504"],
    [status(302, { location: "/" }), 1, "dispatch.upstream_failed", 502, "upstream acme answered 302"],
    [status(401), 1, "dispatch.upstream_failed", 502, "upstream acme refused Berth's own credentials (401)"],
    [status(403), 1, "dispatch.upstream_failed", 502, "upstream acme refused Berth's own credentials (403)"],
    [status(404), 1, "dispatch.rejected", 404, "upstream acme answered 404"],
    [status(400, {}, '{"error":{"message":"no such voice"}}'), 1, "dispatch.rejected", 400, "no such voice"],
    [{ kind: "garbage" }, 1, "dispatch.upstream_failed", 502, "the answer of upstream acme is no HTTP"],
    [
      { kind: "drop" },
      2,
      "dispatch.upstream_failed",
      502,
      "upstream acme closed the connection without an answer (UND_ERR_SOCKET)",
    ],
  ];
  for (const [fault, tries, code, answered, message] of kinds) {
    it(`is reported as ${code} after ${tries} tries: ${message}`, async () => {
      await using double = await startProvider();
      await using open = openProvider({ baseUrl: double.baseUrl });
      double.fail(...Array.from({ length: tries }, () => fault));
      const failure = await failureOf(ask(open.provider));
      assert.deepEqual([failure.code, failure.status, failure.message], [code, answered, message]);
      assert.equal(double.posts.length, tries);
    });
  }

  it("gets a request as often as `retries` allows, and then no more", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, retries: 3 });
    double.fail(status(503), { kind: "drop" }, status(502));
    assert.match(await answerOf(ask(open.provider)), /Hello/);
    assert.deepEqual(open.outcomes, ["503", "retry", "broken", "retry", "502", "retry", "200"]);
    await using never = openProvider({ baseUrl: double.baseUrl, retries: 0 });
    double.fail(status(503));
    await failureOf(ask(never.provider));
    assert.deepEqual(never.outcomes, ["503"]);
  });

  it("gets no request before its Retry-After is over", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail(status(503, { "retry-after": "120" }));
    const failure = await failureOf(ask(open.provider));
    assert.deepEqual(failure.headers, { "retry-after": "120" });
    assert.equal(double.posts.length, 1);
  });

  it("gets no request before the date in its Retry-After", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const date = new Date(Date.now() + 120_000).toUTCString();
    double.fail(status(503, { "retry-after": date }));
    assert.deepEqual((await failureOf(ask(open.provider))).headers, { "retry-after": date });
    assert.equal(double.posts.length, 1);
    double.fail(status(503, { "retry-after": new Date(0).toUTCString() }));
    await answerOf(ask(open.provider));
  });

  it("keeps its 429 and its Retry-After", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail(status(429, { "retry-after": "7" }, '{"error":{"message":"slow down"}}'));
    const failure = await failureOf(ask(open.provider));
    assert.deepEqual([failure.code, failure.status, failure.message], ["dispatch.rejected", 429, "slow down"]);
    assert.deepEqual(failure.headers, { "retry-after": "7" });
    assert.deepEqual(failure.details, { upstream: { error: { message: "slow down" } } });
  });

  it("is unavailable where no server listens, and its address is not shown", async () => {
    const port = await freePort();
    await using open = openProvider({ baseUrl: `http://127.0.0.1:${port}/v1` });
    const failure = await failureOf(ask(open.provider));
    assert.equal(failure.code, "dispatch.upstream_unavailable");
    assert.equal(failure.message, "upstream acme cannot be reached (ECONNREFUSED)");
    assert.deepEqual(open.outcomes, ["unreachable", "retry", "unreachable"]);
  });

  it("times out where the provider does not answer within its limit, and is not retried", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, timeoutSeconds: 1 });
    double.fail({ kind: "hang" });
    const failure = await failureOf(ask(open.provider));
    assert.equal(failure.code, "dispatch.upstream_timeout");
    assert.equal(double.posts.length, 1);
  });

  it("gets no request again once a byte was relayed", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail({ kind: "cut" });
    const asked = ask(open.provider);
    await asked.ended;
    assert.match(textOf(asked), /half/);
    assert.equal(asked.ends, 1);
    assert.equal(asked.failure?.code, "dispatch.upstream_failed");
    assert.match(asked.failure?.message ?? "", /^upstream acme broke off within its answer/);
    assert.equal(double.posts.length, 1);
  });

  it("fails a request whose client cannot be loaded, and that one alone", async (t) => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const pool = t.mock.method(open.provider, "transport", () =>
      Promise.reject(new Error("EMFILE: too many open files")),
    );
    const failure = await failureOf(ask(open.provider));
    assert.deepEqual([failure.code, failure.message.includes("EMFILE")], ["system.internal", false]);
    pool.mock.restore();
    await answerOf(ask(open.provider));
    assert.deepEqual(open.outcomes, ["broken", "200"]);
  });

  it("fails where it answers in an encoding that was not requested", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail(status(200, { "content-encoding": "gzip" }));
    const failure = await failureOf(ask(open.provider));
    assert.equal(failure.message, "upstream acme answers in an encoding that was not requested");
  });

  it("gets no request after five failures in a row, then a single trial after a while", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, retries: 0 });
    double.fail(...Array.from({ length: 5 }, () => status(503)));
    for (let index = 0; index < 5; index++) await failureOf(ask(open.provider));
    assert.equal(open.provider.state, "open");
    const refused = await failureOf(ask(open.provider));
    assert.equal(refused.code, "dispatch.upstream_unavailable");
    assert.deepEqual(refused.headers, { "retry-after": "10" });
    assert.equal(double.posts.length, 5);
    open.clock.ms = 10_000;
    const both = [ask(open.provider), ask(open.provider)] as const;
    await answerOf(both[0]);
    await failureOf(both[1]);
    assert.equal(open.provider.state, "closed");
    await answerOf(ask(open.provider));
  });

  it("keeps its single trial when this process lacks a descriptor for it", async () => {
    await using double = await startProvider();
    const { port } = new URL(double.baseUrl);
    let isShort = false;
    await using open = openProvider(
      { baseUrl: `http://localhost:${port}/v1`, retries: 1 },
      {
        lookup: (_name, _options, done) => {
          const error = isShort ? Object.assign(new Error("no more files"), { code: "EMFILE" }) : null;
          isShort = false;
          done(error, [{ address: "127.0.0.1", family: 4 }]);
        },
      },
    );
    double.fail(...Array.from({ length: 5 }, () => status(503, { connection: "close" })));
    for (let index = 0; index < 3; index++) await failureOf(ask(open.provider));
    assert.equal(open.provider.state, "open");
    open.clock.ms = 10_000;
    isShort = true;
    await answerOf(ask(open.provider));
    assert.ok(open.outcomes.includes("shortage"));
    assert.equal(open.provider.state, "closed");
  });

  it("gets no request either after five refused connections", async () => {
    await using open = openProvider({ baseUrl: `http://127.0.0.1:${await freePort()}/v1`, retries: 0 });
    for (let index = 0; index < 5; index++) await failureOf(ask(open.provider));
    assert.equal(open.provider.state, "open");
  });

  for (const [how, fault] of [
    ["answers 500", status(500)],
    ["closes the connection", { kind: "drop" }],
  ] satisfies [string, Fault][]) {
    it(`still gets requests for its other models when it ${how} for one model`, async () => {
      await using double = await startProvider();
      await using open = openProvider({ baseUrl: double.baseUrl, retries: 0 });
      double.fail(...Array.from({ length: 5 }, () => fault));
      const body = (text: string) => [Buffer.from(JSON.stringify({ model: "sick", messages: [], text }))];
      for (const text of "abcde") await failureOf(ask(open.provider, { model: "sick", body: body(text) }));
      const refused = await failureOf(ask(open.provider, { model: "sick", body: body("f") }));
      assert.match(refused.message, /^upstream acme keeps failing for this model \((500|broken)\)/);
      assert.equal(refused.headers["retry-after"], "10");
      await answerOf(ask(open.provider));
      assert.equal(open.provider.state, "closed");
    });
  }

  it("still gets requests for a model although one prompt fails again and again", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, retries: 0 });
    double.fail(...Array.from({ length: 9 }, () => status(500)));
    for (let index = 0; index < 9; index++) await failureOf(ask(open.provider));
    await answerOf(ask(open.provider, { body: [Buffer.from('{"model":"gpt-double","messages":[{}]}')] }));
  });

  it("stays in service where it refuses requests", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail(...Array.from({ length: 6 }, () => status(400)));
    for (let index = 0; index < 6; index++) await failureOf(ask(open.provider));
    assert.equal(open.provider.state, "closed");
  });
});

describe("a provider's key", () => {
  const echo = (code: number): Fault => ({
    kind: "answer",
    status: code,
    headers: {
      "x-echo": secretKey,
      "retry-after": secretKey,
      "content-disposition": `attachment; filename="${secretKey}"`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ error: { message: `bad key ${secretKey}`, headers: { authorization: secretKey } } }),
  });
  for (const code of [200, 400, 401, 403, 404, 422, 429, 500, 503]) {
    it(`is masked everywhere when the provider echoes it with ${code}`, async () => {
      await using double = await startProvider();
      await using open = openProvider({ baseUrl: double.baseUrl, ...bearer, retries: 0 });
      double.fail(echo(code));
      const asked = ask(open.provider);
      await asked.ended;
      const { failure, head } = asked;
      const everything = [
        textOf(asked),
        JSON.stringify(head ?? null),
        JSON.stringify(failure?.envelope() ?? null),
        JSON.stringify(failure?.headers ?? null),
        failure?.stack ?? "",
        inspect(failure),
        ...open.problems,
      ].join("\n");
      assert.ok(double.posts[0]?.headers.authorization?.includes(secretKey), "the provider had it");
      assert.equal(everything.includes(secretKey), false, everything);
      assert.equal(everything.includes("sk-live"), false, everything);
    });
  }

  it("of a few digits leaves the length of an answer as it is", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, ...bearer }, { env: { ACME_KEY: "1234" } });
    const headers = { "content-type": "application/json", "content-length": "1234" };
    double.fail(status(200, headers, JSON.stringify("x".repeat(1232))));
    const asked = ask(open.provider);
    await answerOf(asked);
    assert.equal(asked.head?.contentLength, "1234");
  });

  it("appears in no event of a stream", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, ...bearer });
    const body = `data: ${JSON.stringify({ error: { message: `bad key ${secretKey}` } })}\n\n`;
    double.fail({ kind: "answer", status: 200, headers: { "content-type": "text/event-stream" }, body });
    const text = await answerOf(ask(open.provider));
    assert.equal(text, body.replace(secretKey, "*".repeat(secretKey.length)));
  });

  it("that is missing is reported to the client, and its variable in the log", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, ...bearer }, { env: {} });
    const failure = await failureOf(ask(open.provider));
    assert.equal(failure.code, "dispatch.upstream_failed");
    assert.equal(failure.message, "upstream acme has no usable key; the gateway's log names the reason");
    assert.deepEqual(open.problems, ["the environment variable ACME_KEY is not set"]);
    assert.deepEqual([double.asked.length, open.outcomes], [0, ["no_key"]]);
  });

  it("that is missing in a file is reported in the same way, and the answer does not have the path", async () => {
    await using open = openProvider({
      baseUrl: "http://127.0.0.1:9/v1",
      auth: { type: "bearer", valueFrom: { file: "/nonexistent/key" } },
    });
    const failure = await failureOf(ask(open.provider));
    assert.equal(JSON.stringify(failure.envelope()).includes("nonexistent"), false);
    assert.deepEqual(open.problems, ["the file /nonexistent/key does not exist"]);
  });

  it("that the provider refuses is reported in the log", async () => {
    await using double = await startProvider({ key: "another-key" });
    await using open = openProvider({ baseUrl: double.baseUrl, ...bearer });
    await failureOf(ask(open.provider));
    assert.deepEqual(open.problems, ["the provider refused the key (401)"]);
  });
});

describe("a provider with maxConcurrent", () => {
  it("gets no more at once; others wait, and beyond the queue are refused", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, maxConcurrent: 2 });
    double.fail({ kind: "hang" }, { kind: "hang" });
    const all = Array.from({ length: 2 + 64 + 1 }, () => ask(open.provider));
    const refused = await failureOf(all.at(-1) ?? assert.fail());
    assert.equal(refused.code, "slot.overloaded");
    assert.equal(refused.status, 429);
    assert.equal(refused.message, "upstream acme and its queue are full");
    assert.match(refused.headers["retry-after"] ?? "", /^[1-9]\d?$/);
    await until("two are there", () => double.posts.length === 2);
    assert.deepEqual([open.provider.queue.inside, open.provider.queue.waiting], [2, 64]);
    all[0]?.exchange.abort();
    await answerOf(all[2] ?? assert.fail());
    all[1]?.exchange.abort();
    await Promise.all(all.slice(3, -1).map(answerOf));
    assert.deepEqual([open.provider.queue.inside, open.provider.queue.waiting], [0, 0]);
  });
});

describe("clients of a provider with maxConcurrent", () => {
  it("take turns", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, maxConcurrent: 1 });
    double.fail({ kind: "hang" });
    const asked = (client: string, nth: number): Ask =>
      ask(open.provider, {
        client,
        body: [Buffer.from(`{"model":"gpt-double","messages":[],"by":"${client}${nth}"}`)],
      });
    const first = asked("many", 0);
    await until("it is there", () => double.posts.length === 1);
    const many = [1, 2, 3].map((nth) => asked("many", nth));
    const few = asked("few", 1);
    assert.deepEqual(
      [many[2], few].map((each) => each?.exchange.place.position),
      [4, 2],
    );
    first.exchange.abort();
    await Promise.all([...many, few].map(answerOf));
    const order = double.posts.map(({ body }) => /(many|few)\d/.exec(body)?.[0]);
    assert.deepEqual(order, ["many0", "many1", "few1", "many2", "many3"]);
  });

  it("keep the place of a stream that has begun, when the queue is full", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, maxConcurrent: 1 });
    double.fail({ kind: "hang" });
    const first = ask(open.provider, { client: "many" });
    await until("it is there", () => double.posts.length === 1);
    const waiting = Array.from({ length: 64 }, (_, nth) =>
      ask(open.provider, { client: "many", answer: { hasBegun: nth === 63 } }),
    );
    const few = ask(open.provider, { client: "few" });
    assert.equal((await failureOf(waiting[62] ?? assert.fail())).code, "slot.overloaded");
    first.exchange.abort();
    await Promise.all([few, ...waiting.filter((_, nth) => nth !== 62)].map(answerOf));
  });

  it("take no place with a request that is aborted before its turn, or at its turn", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, maxConcurrent: 1 });
    const all = Array.from({ length: 4 }, () => ask(open.provider));
    // The first was let in, and has not begun.
    for (const nth of [1, 0, 2]) all[nth]?.exchange.abort();
    await answerOf(all[3] ?? assert.fail());
    assert.equal(double.posts.length, 1);
    assert.deepEqual([open.provider.queue.inside, open.provider.queue.waiting], [0, 0]);
  });
});

describe("a request's body", () => {
  it("counts in the budget until the provider answers, however it ends", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const body = [Buffer.alloc(1_000_000), Buffer.alloc(1_000_000)];
    double.fail({ kind: "hang" });
    const first = ask(open.provider, { body });
    await until("it is there", () => double.posts.length === 1);
    assert.equal(open.budget.usedBytes, 2_000_000);
    const refused = await failureOf(ask(open.provider, { body }));
    assert.deepEqual([refused.code, refused.status], ["system.overloaded", 503]);
    assert.equal(open.budget.usedBytes, 2_000_000);
    first.exchange.abort();
    assert.equal(open.budget.usedBytes, 0);
    await answerOf(ask(open.provider, { body }));
    double.fail(status(500));
    await failureOf(ask(open.provider, { body }));
    double.fail({ kind: "cut" });
    const cut = ask(open.provider, { body });
    await until("the answer has begun", () => cut.head !== undefined);
    assert.equal(open.budget.usedBytes, 0, "no longer kept");
    await cut.ended;
    assert.equal(open.budget.usedBytes, 0);
  });
});

describe("an upload", () => {
  const type = "multipart/form-data; boundary=x";
  /** Pieces in one buffer that is used again and again, as a spool lends them. */
  async function* lent(pieces: readonly string[]): AsyncGenerator<Buffer> {
    const buffer = Buffer.alloc(100_000);
    for (const piece of pieces) {
      buffer.fill(0);
      yield buffer.subarray(0, buffer.write(piece));
    }
  }
  const pieces = Array.from({ length: 300 }, (_, index) => `${index} `.repeat(20_000));
  const upload = (body: AsyncIterable<Buffer>, length?: number): (() => Upload) => {
    let opened = 0;
    return () => {
      assert.equal((opened += 1), 1, "opened once");
      return { headers: { "content-type": type, ...(length !== undefined && { "content-length": length }) }, body };
    };
  };

  it("goes out as it comes, in chunks or with its length", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const whole = pieces.join("");
    await answerOf(ask(open.provider, { body: upload(lent(pieces)) }));
    await answerOf(ask(open.provider, { body: upload(lent(pieces), whole.length) }));
    assert.deepEqual(
      double.posts.map(({ headers, body }) => [
        headers["content-type"],
        headers["content-length"],
        headers["transfer-encoding"],
        body === whole,
      ]),
      [
        [type, undefined, "chunked", true],
        [type, String(whole.length), undefined, true],
      ],
    );
  });

  it("is sent again when the connection failed, and not once a part of the upload was read", async () => {
    const port = await freePort();
    await using nobody = openProvider({ baseUrl: `http://127.0.0.1:${port}/v1` });
    await failureOf(ask(nobody.provider, { body: upload(lent(pieces)) }));
    assert.deepEqual(nobody.outcomes, ["unreachable", "retry", "unreachable"]);
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail(status(503));
    const failure = await failureOf(ask(open.provider, { body: upload(lent(pieces)) }));
    assert.equal(failure.code, "dispatch.upstream_unavailable");
    assert.equal(double.posts.length, 1);
  });

  it("that breaks is reported as broken, and does not count against the provider", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const broken = new ApiError("dispatch.payload_too_large");
    async function* body(): AsyncGenerator<Buffer> {
      yield Buffer.from("begun");
      await nextTurn();
      throw broken;
    }
    for (let index = 0; index < 6; index++) {
      assert.equal(await failureOf(ask(open.provider, { body: upload(body()) })), broken);
    }
    assert.equal(open.provider.state, "closed");
    assert.equal(double.posts.length, 0, "never whole");
  });

  it("that stands still is given up", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, timeoutSeconds: 1 });
    const never = Promise.withResolvers<void>();
    async function* body(): AsyncGenerator<Buffer> {
      yield Buffer.from("begun");
      await never.promise;
    }
    const failure = await failureOf(ask(open.provider, { body: upload(body()) }));
    assert.equal(failure.message, "the upload stood still for too long");
    never.resolve();
  });

  it("ends when the client leaves", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const never = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    let hasGoneOn = false;
    async function* body(): AsyncGenerator<Buffer> {
      try {
        yield Buffer.from("begun");
        await never.promise;
        yield Buffer.from("more");
        hasGoneOn = true;
      } finally {
        ended.resolve();
      }
    }
    const asked = ask(open.provider, { body: upload(body()) });
    await until("it has begun", () => double.openConnections === 1);
    asked.exchange.abort();
    never.resolve();
    await ended.promise;
    assert.deepEqual([asked.ends, hasGoneOn, double.posts.length], [0, false, 0]);
  });
});

describe("a client that leaves", () => {
  it("ends the provider's work", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail({ kind: "hang" });
    const asked = ask(open.provider);
    await until("it is there", () => double.posts.length === 1);
    asked.exchange.abort();
    await until("the provider notices", () => double.posts[0]?.response.destroyed);
    assert.equal(asked.ends, 0, "no event follows");
    assert.equal(open.provider.queue.inside, 0);
    assert.deepEqual(open.outcomes, ["aborted"]);
  });

  it("ends it within a stream", async () => {
    await using double = await startProvider({ tokenMs: 20 });
    await using open = openProvider({ baseUrl: double.baseUrl });
    const asked = ask(open.provider, { body: [Buffer.from('{"stream":true}')] });
    await until("it has begun", () => asked.chunks.length > 0);
    asked.exchange.abort();
    await until("the provider notices", () => double.posts[0]?.response.destroyed);
    assert.equal(asked.ends, 0);
  });

  it("is forgotten while it waits for its turn, and before it is sent", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl, maxConcurrent: 1 });
    double.fail({ kind: "hang" });
    const [first, second, third] = [ask(open.provider), ask(open.provider), ask(open.provider)];
    second?.exchange.abort();
    await until("one is there", () => double.posts.length === 1);
    first?.exchange.abort();
    await answerOf(third ?? assert.fail());
    const unsent = ask(open.provider);
    unsent.exchange.abort();
    unsent.exchange.abort();
    await answerOf(ask(open.provider));
    assert.equal(double.posts.length, 3);
    assert.equal(unsent.ends, 0);
  });

  it("is not served where it leaves while the connection is opened", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const asked = ask(open.provider);
    // It is on its way, and no connection can be there before the next turn.
    for (let step = 0; step < 10; step++) await Promise.resolve();
    asked.exchange.abort();
    await answerOf(ask(open.provider));
    assert.deepEqual([double.posts.length, asked.ends], [1, 0]);
  });

  it("is not served where it leaves between two tries", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl }, { backoffMs: 3000 });
    double.fail(status(503));
    const asked = ask(open.provider);
    await until("it waits", () => open.outcomes.includes("retry"));
    asked.exchange.abort();
    await open.provider.retire();
    assert.equal(double.posts.length, 1);
  });
});

describe("a slow reader", () => {
  it("slows the provider down", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    const body = "x".repeat(20_000_000);
    double.fail(status(200, { "content-type": "text/plain" }, body));
    const asked = ask(open.provider);
    asked.exchange.pause();
    await until("the answer has begun", () => asked.head !== undefined);
    for (let turn = 0; turn < 50; turn++) await nextTurn();
    const response = double.posts[0]?.response ?? assert.fail();
    assert.deepEqual([response.writableFinished, asked.chunks.length], [false, 0]);
    asked.exchange.resume();
    assert.equal(await answerOf(asked), body);
  });
});

describe("a provider that is dropped", () => {
  it("completes requests in flight before it closes", async () => {
    await using double = await startProvider({ tokenMs: 10 });
    await using open = openProvider({ baseUrl: double.baseUrl });
    const asked = ask(open.provider, { body: [Buffer.from('{"stream":true}')] });
    await until("it has begun", () => asked.head !== undefined);
    await Promise.all([open.provider.retire(), open.provider.retire()]);
    assert.match(await answerOf(asked), /\[DONE\]/);
    await until("connections are closed", () => double.openConnections === 0);
  });

  it("fails requests in flight when the gateway stops", async () => {
    await using double = await startProvider();
    await using open = openProvider({ baseUrl: double.baseUrl });
    double.fail({ kind: "hang" });
    const asked = ask(open.provider);
    await until("it is there", () => double.posts.length === 1);
    await open.provider[Symbol.asyncDispose]();
    assert.equal((await failureOf(asked)).message, "the gateway is stopping");
  });
});
