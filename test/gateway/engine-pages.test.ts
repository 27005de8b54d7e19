import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { z } from "zod";
import { startGateway, type TestGateway } from "./auth/gateway.ts";
import { startPageEngine, type PageEngineDouble } from "../doubles/page-engine.ts";
import { envelopeOf } from "../support/envelope.ts";
import type { SlotSketch } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { rawExchange } from "../support/raw-http.ts";
import { until } from "../support/until.ts";

const bearer = "engine-secret";

interface Site extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly engine: PageEngineDouble;
  /** Of engines' pages. */
  readonly url: string;
}

async function site(env: Readonly<Record<string, string>> = {}): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const engine = stack.use(await startPageEngine());
  const { first } = await freePorts(1);
  const sketch: SlotSketch = { port: engine.port, bearerList: [{ role: "main", ordinal: 0, bearer }] };
  const settings = { SVC_ENGINE_PAGES: "primary,cold,gone", SVC_ENGINE_PAGES_PORT: String(first), ...env };
  const gateway = stack.use(
    await startGateway(settings, { primary: sketch, other: { port: engine.port }, cold: { state: "offline" } }),
  );
  const owned = stack.move();
  return { gateway, engine, url: `http://127.0.0.1:${first}`, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const asPerson = { accept: "text/html" };

describe("an engine's own page", () => {
  it("has a port of its own, to which the API redirects, and which serves nothing else", async () => {
    await using it = await site();
    for (const path of ["/upstream/primary/?a=b", "/upstream/primary?a=b", "/upstream/%70rimary/?a=b"]) {
      const led = await fetch(`${it.gateway.url}${path}`, { redirect: "manual" });
      assert.deepEqual([led.status, led.headers.get("location")], [307, `${it.url}/upstream/primary/?a=b`], path);
    }
    const page = await fetch(`${it.url}/upstream/primary/?a=b`);
    assert.match(await page.text(), /An engine's page/);
    assert.equal(page.headers.get("content-security-policy"), "script-src 'unsafe-inline', frame-ancestors 'self'");
    assert.equal(page.headers.get("access-control-allow-origin"), null);
    assert.equal(page.headers.get("clear-site-data"), null);
    assert.equal(it.engine.calls.at(-1)?.url, "/?a=b");
    const bare = await fetch(`${it.url}/upstream/primary`, { redirect: "manual" });
    assert.deepEqual([bare.status, bare.headers.get("location")], [308, "/upstream/primary/"]);
    for (const path of [
      "/",
      "/api/slots",
      "/v1/models",
      "/ui",
      "/upstream/other/",
      "/upstream/%70rimary/",
      "/upstream/",
    ])
      assert.equal((await fetch(`${it.url}${path}`)).status, 404, path);
    assert.equal((await fetch(`${it.gateway.url}/upstream/other/`)).status, 404);
  });

  it("is served though many have sent half a request, or wait for another one", async () => {
    await using it = await site();
    const { port } = new URL(it.url);
    using stack = new DisposableStack();
    let timedOut = 0;
    const open = async (text: string): Promise<void> => {
      const socket = connect(Number(port), "127.0.0.1");
      stack.defer(() => socket.destroy());
      socket.on("error", () => undefined).once("data", () => (timedOut += 1));
      await once(socket, "connect");
      socket.write(text);
    };
    const isServed = async (): Promise<boolean> =>
      await fetch(`${it.url}/upstream/primary/`).then(
        ({ status }) => status === 200,
        () => false,
      );
    for (let count = 0; count < 300; count += 1) await open("GET /upstream/primary/ HTTP/1.1\r\nhost: 127");
    await until("the page is served beside halves of requests", isServed);
    assert.equal(timedOut, 0, "the page has not waited for the time-out of half a request, which is answered with 408");
    for (let count = 0; count < 300; count += 1) await open("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    await until("the page is served beside idle connections", isServed);
  });

  it("is off unless a slot is named", async () => {
    await using it = await site({ SVC_ENGINE_PAGES: "" });
    assert.equal((await fetch(`${it.gateway.url}/upstream/primary/`)).status, 404);
    await assert.rejects(fetch(`${it.url}/upstream/primary/`));
  });

  it("gets the request's body, query and headers, the engine's bearer, and nothing that belongs to the gateway", async () => {
    await using it = await site();
    const response = await fetch(`${it.url}/upstream/primary/echo?q=1`, {
      method: "POST",
      body: "hello",
      headers: {
        "content-type": "text/plain",
        authorization: "Bearer svc_mine.secret",
        "x-api-key": "svc_mine.secret",
        cookie: "session=mine; berth.primary.a=1; berth.other.a=2",
        "x-forwarded-for": "10.0.0.1",
        "x-forwarded-email": "me",
        "x-custom": "kept",
        origin: it.url,
        referer: `${it.url}/upstream/primary/`,
      },
    });
    assert.deepEqual(await response.json(), { body: "hello", query: "?q=1" });
    const headers = it.engine.calls.at(-1)?.headers ?? {};
    assert.equal(headers.authorization, `Bearer ${bearer}`);
    assert.equal(headers.cookie, "a=1");
    assert.equal(headers.host, `127.0.0.1:${it.engine.port}`);
    assert.equal(headers.origin, `http://127.0.0.1:${it.engine.port}`);
    assert.equal(headers["x-custom"], "kept");
    for (const name of ["x-api-key", "x-forwarded-for", "x-forwarded-email", "referer"])
      assert.equal(headers[name], undefined, name);
  });

  it("keeps redirects and cookies below its own path", async () => {
    await using it = await site();
    const to = async (where: string): Promise<Response> =>
      await fetch(`${it.url}/upstream/primary/redirect?to=${encodeURIComponent(where)}`, { redirect: "manual" });
    for (const [where, location] of [
      ["/other?x#y", "/upstream/primary/other?x#y"],
      ["sub/", "/upstream/primary/sub/"],
      ["../../../api/slots", "/upstream/primary/api/slots"],
      [`http://127.0.0.1:${it.engine.port}/a`, "/upstream/primary/a"],
    ] as const)
      assert.equal((await to(where)).headers.get("location"), location, where);
    for (const where of [
      "http://evil.example/",
      "//evil.example/",
      "javascript:alert(1)",
      "http://[",
      "/\\evil.example/",
    ]) {
      const refused = await to(where);
      assert.equal(refused.status, 502, where);
      assert.match((await envelopeOf(refused)).error.message, /leads to another server/);
      assert.equal(refused.headers.get("location"), null);
    }
    const baked = await fetch(`${it.url}/upstream/primary/cookie`);
    assert.deepEqual(baked.headers.getSetCookie(), [
      "berth.primary.a=1; HttpOnly; Path=/upstream/primary/",
      "berth.primary.b=2; SameSite=Lax; Path=/upstream/primary/",
    ]);
  });

  it("is for admins: a browser asks for the token as a password, a program sends it as any other", async () => {
    await using it = await site({ SVC_AUTH_ENABLED: "1" });
    const url = `${it.url}/upstream/primary/`;
    const stranger = await fetch(url, { headers: asPerson });
    assert.equal(stranger.status, 401);
    assert.match(stranger.headers.get("www-authenticate") ?? "", /^Basic realm=/);
    assert.match((await fetch(url)).headers.get("www-authenticate") ?? "", /^Basic realm=/);
    const basic = (token: string): string => `Basic ${Buffer.from(`me:${token}`).toString("base64")}`;
    const admin = await it.gateway.token("admin");
    for (const [authorization, status] of [
      [`Bearer ${admin}`, 200],
      [basic(admin), 200],
      [basic(await it.gateway.token("all")), 403],
      [basic(await it.gateway.token("v1-only")), 403],
      [basic("svc_wrong.token"), 401],
    ] as const)
      assert.equal((await fetch(url, { headers: { authorization } })).status, status, authorization);
    assert.deepEqual([...new Set(it.engine.calls.map(({ headers }) => headers.authorization))], [`Bearer ${bearer}`]);
  });

  it("says what to do where its slot is not loaded, not there, or does not answer", async () => {
    await using it = await site();
    const cold = await fetch(`${it.url}/upstream/cold/`, { headers: asPerson });
    assert.equal(cold.status, 503);
    assert.match(cold.headers.get("content-type") ?? "", /^text\/html/);
    assert.match(await cold.text(), /Slot cold has no engine now.*berth slot load cold/);
    assert.equal((await envelopeOf(await fetch(`${it.url}/upstream/cold/`))).error.code, "slot.not_ready");
    assert.equal((await fetch(`${it.url}/upstream/gone/`)).status, 404);
    const cut = await fetch(`${it.url}/upstream/primary/cut`);
    await assert.rejects(cut.text());
    await it.gateway.publish("primary", { port: it.engine.port, spec: { timeoutSeconds: { firstByte: 0, idle: 1 } } });
    const patient = new AbortController();
    const endless = fetch(`${it.url}/upstream/primary/hang`, { signal: patient.signal });
    await until("the engine has it", () => it.engine.calls.at(-1)?.url === "/hang");
    await it.gateway.publish("primary", { port: it.engine.port, spec: { timeoutSeconds: { firstByte: 1, idle: 1 } } });
    const late = await fetch(`${it.url}/upstream/primary/hang`);
    assert.equal((await envelopeOf(late)).error.code, "dispatch.upstream_timeout");
    patient.abort();
    await assert.rejects(endless, { name: "AbortError" });
    await it.engine[Symbol.asyncDispose]();
    const dead = await fetch(`${it.url}/upstream/primary/`);
    assert.equal((await envelopeOf(dead)).error.code, "dispatch.upstream_unavailable");
  });

  it("refuses a body beyond the limit, by its length and by its bytes", async () => {
    await using it = await site({ SVC_BODY_LIMIT: "1000" });
    const post = (body: string | ReadableStream, init: RequestInit = {}): Promise<Response> =>
      fetch(`${it.url}/upstream/primary/echo`, { method: "POST", body, ...init });
    assert.equal((await post("x".repeat(1000))).status, 200);
    assert.equal((await post("x".repeat(1001))).status, 413);
    const endless = new ReadableStream({
      async pull(to) {
        // The gateway is in this process: a stream that always has more at once would leave it no turn.
        await new Promise((resolve) => setImmediate(resolve));
        to.enqueue(new Uint8Array(600));
      },
    });
    const cut = await post(endless, { duplex: "half" }).then(
      ({ status }) => status,
      () => 413,
    );
    assert.equal(cut, 413);
  });

  it("reads the rest of a body that it refuses, so that the browser gets the reason and its next page", async () => {
    await using it = await site({ SVC_BODY_LIMIT: "1000" });
    const { host } = new URL(it.url);
    const bytes = 20_000_000;
    const lines = [
      `POST /upstream/primary/echo HTTP/1.1`,
      `host: ${host}`,
      "accept: text/html",
      `content-length: ${bytes}`,
    ];
    const next = `GET /upstream/primary/ HTTP/1.1\r\nhost: ${host}\r\n\r\n`;
    const { status, body } = await rawExchange(it.url, `${lines.join("\r\n")}\r\n\r\n${"x".repeat(bytes)}${next}`, {
      isEnough: (text) => text.includes("An engine's page<"),
      timeoutMs: 20_000,
    });
    assert.equal(status, 413);
    assert.match(body, /HTTP\/1\.1 200 OK/);
  });

  it("counts as work of its slot while a request of it is in flight", async () => {
    await using it = await site();
    const leaving = new AbortController();
    const hanging = fetch(`${it.url}/upstream/primary/hang`, { signal: leaving.signal }).catch(() => undefined);
    await until("it is counted", () => it.gateway.demand("primary")?.inFlight === 1);
    leaving.abort();
    await hanging;
    await until("it is over", () => it.gateway.demand("primary")?.inFlight === 0);
  });

  it("is in the metrics and in the access log, without its address", async () => {
    await using it = await site();
    const count = async (slot: string, code: number): Promise<number | undefined> =>
      await it.gateway.metric(`berth_engine_page_requests_total{slot="${slot}",code="${code}"}`);
    const page = await fetch(`${it.url}/upstream/primary/?secret=1`, { headers: { "x-request-id": "mine" } });
    await page.text();
    assert.equal(page.headers.get("x-request-id"), "mine");
    const cold = await fetch(`${it.url}/upstream/cold/`, { headers: { ...asPerson, "x-request-id": "cold-one" } });
    assert.equal(cold.headers.get("x-request-id"), "cold-one");
    await fetch(`${it.url}/upstream/other/`);
    await fetch(`${it.url}/upstream/primary`, { redirect: "manual" });
    const leaving = new AbortController();
    const hanging = fetch(`${it.url}/upstream/primary/hang`, { signal: leaving.signal }).catch(() => undefined);
    await until("it is asked for", () => it.engine.calls.some(({ url }) => url === "/hang"));
    leaving.abort();
    await hanging;
    for (const [slot, code] of [
      ["primary", 200],
      ["primary", 308],
      ["primary", 499],
      ["cold", 503],
      ["none", 404],
    ] as const)
      await until(`${slot} ${code} is counted`, async () => (await count(slot, code)) === 1);
    const lines = it.gateway.log().split("\n");
    const of = (id: string): unknown => JSON.parse(lines.find((line) => line.includes(`"requestId":"${id}"`)) ?? "{}");
    const { time: _time, ms: _ms, ...mine } = z.looseObject({ time: z.number(), ms: z.number() }).parse(of("mine"));
    assert.deepEqual(mine, {
      level: 30,
      component: "gateway",
      requestId: "mine",
      slot: "primary",
      status: 200,
      msg: "/upstream primary 200",
    });
    assert.match(
      JSON.stringify(of("cold-one")),
      /"failure":"slot.not_ready","msg":"\/upstream cold 503 slot.not_ready"/,
    );
    assert.doesNotMatch(it.gateway.log(), /secret=1/);
  });

  it("is refused to another site, in a frame, and under a host name that is not this machine's", async () => {
    await using it = await site();
    const host = new URL(it.url).host;
    const status = async (...headers: readonly string[]): Promise<number> => {
      const lines = [`GET /upstream/primary/ HTTP/1.1`, `host: ${host}`, ...headers, "connection: close", "", ""];
      return (await rawExchange(it.url, lines.join("\r\n"))).status;
    };
    const link = ["sec-fetch-mode: navigate", "sec-fetch-dest: document"] as const;
    assert.equal(await status("sec-fetch-site: none", ...link), 200);
    assert.equal(await status("sec-fetch-site: same-origin"), 200);
    assert.equal(await status("sec-fetch-site: same-site", ...link), 200);
    assert.equal(await status("sec-fetch-site: same-site"), 403);
    assert.equal(await status("sec-fetch-site: same-site", "sec-fetch-mode: navigate", "sec-fetch-dest: iframe"), 403);
    assert.equal(await status("sec-fetch-site: cross-site", ...link), 403);
    assert.equal(await status("origin: null"), 403);
    assert.equal(await status(`origin: ${it.gateway.url}`), 403);
    assert.equal(await status(`origin: ${it.url}`), 200);
    const rebound = "GET /upstream/primary/ HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert.equal((await rawExchange(it.url, rebound)).status, 403);
  });

  it("warns where its port is taken, and the gateway runs without it", async () => {
    await using it = await site();
    await using other = await startGateway({
      SVC_ENGINE_PAGES: "primary",
      SVC_ENGINE_PAGES_PORT: new URL(it.url).port,
    });
    assert.match(other.log(), /EADDRINUSE.*SVC_ENGINE_PAGES_PORT/);
    assert.equal((await fetch(`${other.url}/livez`)).status, 200);
  });
});

describe("an engine's WebSocket", () => {
  const open = (url: string, headers: Record<string, string> = {}): WebSocket =>
    new WebSocket(`${url.replace("http", "ws")}/upstream/primary/ws`, { headers });
  const event = async (socket: WebSocket, name: "open" | "message" | "close" | "error"): Promise<unknown> =>
    await new Promise((resolve) =>
      socket.addEventListener(name, (happened) => resolve("data" in happened ? happened.data : undefined), {
        once: true,
      }),
    );
  /** A handshake as bytes; the status of its answer. */
  const handshake = async (url: string, path: string, ...headers: readonly string[]): Promise<string> => {
    const { host } = new URL(url);
    const lines = [
      `GET ${path} HTTP/1.1`,
      `host: ${host}`,
      "connection: Upgrade",
      "upgrade: websocket",
      "sec-websocket-version: 13",
      "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
      ...headers,
    ];
    const { status, head } = await rawExchange(url, `${lines.join("\r\n")}\r\n\r\n`, {
      isEnough: (text) => text.includes("\r\n\r\n"),
    });
    assert.doesNotMatch(head, new RegExp(bearer));
    return String(status);
  };

  it("is passed on both ways, with the engine's bearer, and ends with either side", async () => {
    await using it = await site();
    const socket = open(it.url);
    await event(socket, "open");
    for (const text of ["hello", "again"]) {
      const answer = event(socket, "message");
      socket.send(text);
      assert.equal(await answer, text);
    }
    const { headers = {}, url } = it.engine.calls.at(-1) ?? {};
    assert.deepEqual([url, headers.authorization], ["/ws", `Bearer ${bearer}`]);
    const gauge = 'berth_engine_page_websockets{slot="primary"}';
    assert.equal(await it.gateway.metric(gauge), 1);
    const closed = event(socket, "close");
    socket.close();
    await closed;
    await until("it is counted no more", async () => (await it.gateway.metric(gauge)) === 0);
    assert.match(it.gateway.log(), /\/upstream primary 101/);
    await until("the engine's end is closed", () => it.engine.sockets.size === 0);
    const second = open(it.url);
    await event(second, "open");
    const gone = event(second, "close");
    for (const each of it.engine.sockets) each.destroy();
    await gone;
  });

  it("needs the credentials and the site that a page needs", async () => {
    await using it = await site({ SVC_AUTH_ENABLED: "1" });
    const authorization = `authorization: Bearer ${await it.gateway.token("admin")}`;
    const ws = "/upstream/primary/ws";
    assert.equal(await handshake(it.url, ws), "401");
    assert.equal(await handshake(it.url, ws, `authorization: Bearer ${await it.gateway.token("all")}`), "403");
    assert.equal(await handshake(it.url, ws, authorization, "origin: http://evil.example"), "403");
    assert.equal(await handshake(it.url, ws, authorization, `origin: ${it.gateway.url}`), "403");
    assert.equal(await handshake(it.url, ws, authorization, `origin: ${it.url}`), "101");
    assert.equal(await handshake(it.url, "/upstream/other/ws", authorization), "404");
    assert.equal(await handshake(it.url, "/upstream/cold/ws", authorization), "503");
    assert.equal(await handshake(it.url, "/upstream/primary/none", authorization), "502");
    for (const [slot, code] of [
      ["primary", 401],
      ["none", 404],
      ["cold", 503],
      ["primary", 502],
    ] as const) {
      const line = `berth_engine_page_requests_total{slot="${slot}",code="${code}"}`;
      await until(`${slot} ${code} is counted`, async () => (await it.gateway.metric(line)) === 1);
    }
  });

  it("is refused where the engine's answer leads to another server, and others are opened", async () => {
    await using it = await site();
    assert.equal(await handshake(it.url, "/upstream/primary/away"), "502");
    assert.equal(await handshake(it.url, "/upstream/primary/ws"), "101");
  });

  it("ends soon after its token was revoked, and with the gateway", async () => {
    await using it = await site({ SVC_AUTH_ENABLED: "1" });
    const { id, token } = await it.gateway.tokens.create({ label: "brief", scope: "admin" });
    const socket = open(it.url, { authorization: `Bearer ${token}` });
    await event(socket, "open");
    const closed = event(socket, "close");
    await it.gateway.tokens.revoke(id);
    await closed;
    const other = open(it.url, { authorization: `Bearer ${await it.gateway.token("admin")}` });
    await event(other, "open");
    const ended = event(other, "close");
    await it.gateway.running.close({ drainSeconds: 0 });
    await ended;
  });
});
