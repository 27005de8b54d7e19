import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { z } from "zod";
import { startGateway } from "./auth/gateway.ts";
import { startPageEngine } from "../doubles/page-engine.ts";
import { envelopeOf } from "../support/envelope.ts";
import type { SlotSketch } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { rawExchange } from "../support/raw-http.ts";
import { until } from "../support/until.ts";

const bearer = "engine-secret";

/** A gateway with an engine that has a page; `url` is of engines' pages. */
async function site(env: Readonly<Record<string, string>> = {}) {
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
const pageCount = (slot: string, code: number): string =>
  `berth_engine_page_requests_total{slot="${slot}",code="${code}"}`;

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
    for (const name of ["access-control-allow-origin", "clear-site-data"]) assert.equal(page.headers.get(name), null);
    assert.equal(it.engine.calls.at(-1)?.url, "/?a=b");
    const bare = await fetch(`${it.url}/upstream/primary`, { redirect: "manual" });
    assert.deepEqual([bare.status, bare.headers.get("location")], [308, "/upstream/primary/"]);
    const others = ["/upstream/", "/upstream/other/", "/upstream/%70rimary/"];
    for (const path of ["/", "/api/slots", "/v1/models", "/ui", ...others])
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
    for (const [what, text] of [
      ["halves of requests", "GET /upstream/primary/ HTTP/1.1\r\nhost: 127"],
      ["idle connections", "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"],
    ] as const) {
      // Together: one after the other, a slow machine needs the time-out for them.
      await Promise.all(Array.from({ length: 300 }, () => open(text)));
      await until(`the page is served beside ${what}`, isServed);
      // Half a request is answered with 408 at its time-out.
      if (what === "halves of requests") assert.equal(timedOut, 0, "the page has not waited for a time-out");
    }
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
    const { headers = {} } = it.engine.calls.at(-1) ?? {};
    const own = `127.0.0.1:${it.engine.port}`;
    const kept = { authorization: `Bearer ${bearer}`, cookie: "a=1", host: own, origin: `http://${own}` };
    for (const [name, value] of Object.entries({ ...kept, "x-custom": "kept" }))
      assert.equal(headers[name], value, name);
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
    const elsewhere = ["http://evil.example/", "//evil.example/", "/\\evil.example/"];
    for (const where of [...elsewhere, "javascript:alert(1)", "http://["]) {
      const refused = await to(where);
      assert.deepEqual([refused.status, refused.headers.get("location")], [502, null], where);
      assert.match((await envelopeOf(refused)).error.message, /leads to another server/);
    }
    const baked = await fetch(`${it.url}/upstream/primary/cookie`);
    assert.deepEqual(baked.headers.getSetCookie(), [
      "berth.primary.a=1; HttpOnly; Path=/upstream/primary/",
      "berth.primary.b=2; SameSite=Lax; Path=/upstream/primary/",
    ]);
  });

  it("is for admins: a browser asks for the token as a password, a program sends it as a bearer", async () => {
    await using it = await site({ SVC_AUTH_ENABLED: "1" });
    const url = `${it.url}/upstream/primary/`;
    for (const init of [{ headers: asPerson }, {}]) {
      const stranger = await fetch(url, init);
      assert.equal(stranger.status, 401);
      assert.match(stranger.headers.get("www-authenticate") ?? "", /^Basic realm=/);
    }
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
    const codeAt = async (path: string): Promise<string> =>
      (await envelopeOf(await fetch(`${it.url}/upstream/${path}`))).error.code;
    const cold = await fetch(`${it.url}/upstream/cold/`, { headers: asPerson });
    assert.equal(cold.status, 503);
    assert.match(cold.headers.get("content-type") ?? "", /^text\/html/);
    assert.match(await cold.text(), /Slot cold has no engine now.*berth slot load cold/);
    assert.equal(await codeAt("cold/"), "slot.not_ready");
    assert.equal((await fetch(`${it.url}/upstream/gone/`)).status, 404);
    const cut = await fetch(`${it.url}/upstream/primary/cut`);
    await assert.rejects(cut.text());
    const within = (firstByte: number): Promise<void> =>
      it.gateway.publish("primary", { port: it.engine.port, spec: { timeoutSeconds: { firstByte, idle: 1 } } });
    await within(0);
    const patient = new AbortController();
    const endless = fetch(`${it.url}/upstream/primary/hang`, { signal: patient.signal });
    await until("the engine has it", () => it.engine.calls.at(-1)?.url === "/hang");
    await within(1);
    assert.equal(await codeAt("primary/hang"), "dispatch.upstream_timeout");
    patient.abort();
    await assert.rejects(endless, { name: "AbortError" });
    await it.engine[Symbol.asyncDispose]();
    assert.equal(await codeAt("primary/"), "dispatch.upstream_unavailable");
  });

  it("refuses a body beyond the limit, reads the rest of it, and serves the browser's next page", async () => {
    await using it = await site({ SVC_BODY_LIMIT: "1000" });
    const url = `${it.url}/upstream/primary/echo`;
    assert.equal((await fetch(url, { method: "POST", body: "x".repeat(1000) })).status, 200);
    const endless = new ReadableStream({
      async pull(to) {
        // The gateway is in this process: a stream that always has more at once would leave it no turn.
        await new Promise((resolve) => setImmediate(resolve));
        to.enqueue(new Uint8Array(600));
      },
    });
    const cut = await fetch(url, { method: "POST", body: endless, duplex: "half" }).then(
      ({ status }) => status,
      () => 413,
    );
    assert.equal(cut, 413);
    const { host } = new URL(it.url);
    // More than the sockets on the way hold.
    const bytes = 20_000_000;
    const lines = ["POST /upstream/primary/echo HTTP/1.1", `host: ${host}`, "accept: text/html"];
    const head = [...lines, `content-length: ${bytes}`, "", ""].join("\r\n");
    const next = `GET /upstream/primary/ HTTP/1.1\r\nhost: ${host}\r\n\r\n`;
    const { status, body } = await rawExchange(it.url, `${head}${"x".repeat(bytes)}${next}`, {
      isEnough: (text) => text.includes("An engine's page<"),
    });
    assert.equal(status, 413);
    assert.match(body, /HTTP\/1\.1 200 OK/);
  });

  it("is work of its slot, and is in the metrics and in the access log, without its address", async () => {
    await using it = await site();
    const page = await fetch(`${it.url}/upstream/primary/?secret=1`, { headers: { "x-request-id": "mine" } });
    await page.text();
    assert.equal(page.headers.get("x-request-id"), "mine");
    const cold = await fetch(`${it.url}/upstream/cold/`, { headers: { ...asPerson, "x-request-id": "cold-one" } });
    assert.equal(cold.headers.get("x-request-id"), "cold-one");
    await fetch(`${it.url}/upstream/other/`);
    await fetch(`${it.url}/upstream/primary`, { redirect: "manual" });
    const leaving = new AbortController();
    const hanging = fetch(`${it.url}/upstream/primary/hang`, { signal: leaving.signal }).catch(() => undefined);
    // The demand alone may be that of the first page: it is written once a second.
    await until("the engine has the request", () => it.engine.calls.at(-1)?.url === "/hang");
    await until("it is counted", () => it.gateway.demand("primary")?.inFlight === 1);
    leaving.abort();
    await hanging;
    await until("it is over", () => it.gateway.demand("primary")?.inFlight === 0);
    for (const [slot, code] of [
      ["primary", 200],
      ["primary", 308],
      ["primary", 499],
      ["cold", 503],
      ["none", 404],
    ] as const)
      await until(`${slot} ${code} is counted`, async () => (await it.gateway.metric(pageCount(slot, code))) === 1);
    const lines = it.gateway.log().split("\n");
    const of = (id: string): unknown => JSON.parse(lines.find((line) => line.includes(`"requestId":"${id}"`)) ?? "{}");
    const { time: _time, ms: _ms, ...mine } = z.looseObject({ time: z.number(), ms: z.number() }).parse(of("mine"));
    const logged = { level: 30, component: "gateway", requestId: "mine", slot: "primary", status: 200 };
    assert.deepEqual(mine, { ...logged, msg: "/upstream primary 200" });
    const failed = /"failure":"slot.not_ready","ms":\d+,"msg":"\/upstream cold 503 slot.not_ready"/;
    assert.match(JSON.stringify(of("cold-one")), failed);
    assert.doesNotMatch(it.gateway.log(), /secret=1/);
  });

  it("is refused to another site, in a frame, and under a host name that is not this machine's", async () => {
    await using it = await site();
    const host = `host: ${new URL(it.url).host}`;
    const link = ["sec-fetch-mode: navigate", "sec-fetch-dest: document"] as const;
    for (const [status, ...headers] of [
      [200, host, "sec-fetch-site: none", ...link],
      [200, host, "sec-fetch-site: same-origin"],
      [200, host, "sec-fetch-site: same-site", ...link],
      [200, host, `origin: ${it.url}`],
      [403, host, "sec-fetch-site: same-site"],
      [403, host, "sec-fetch-site: same-site", "sec-fetch-mode: navigate", "sec-fetch-dest: iframe"],
      [403, host, "sec-fetch-site: cross-site", ...link],
      [403, host, "origin: null"],
      [403, host, `origin: ${it.gateway.url}`],
      [403, "host: evil.example"],
    ] as const) {
      const lines = ["GET /upstream/primary/ HTTP/1.1", ...headers, "connection: close", "", ""];
      assert.equal((await rawExchange(it.url, lines.join("\r\n"))).status, status, headers.join(", "));
    }
  });

  it("warns where its port is taken, and the gateway runs without it", async () => {
    await using it = await site();
    const port = new URL(it.url).port;
    await using other = await startGateway({ SVC_ENGINE_PAGES: "primary", SVC_ENGINE_PAGES_PORT: port });
    assert.match(other.log(), /EADDRINUSE.*SVC_ENGINE_PAGES_PORT/);
    assert.equal((await fetch(`${other.url}/livez`)).status, 200);
  });
});

describe("an engine's WebSocket", () => {
  const open = (url: string, headers: Record<string, string> = {}): WebSocket =>
    new WebSocket(`${url.replace("http", "ws")}/upstream/primary/ws`, { headers });
  const event = async (socket: WebSocket, name: "open" | "message" | "close"): Promise<unknown> =>
    await new Promise((resolve) =>
      socket.addEventListener(name, (happened) => resolve("data" in happened && happened.data), { once: true }),
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
    const admin = `authorization: Bearer ${await it.gateway.token("admin")}`;
    for (const [status, path, ...headers] of [
      ["401", "primary/ws"],
      ["403", "primary/ws", `authorization: Bearer ${await it.gateway.token("all")}`],
      ["403", "primary/ws", admin, "origin: http://evil.example"],
      ["403", "primary/ws", admin, `origin: ${it.gateway.url}`],
      ["101", "primary/ws", admin, `origin: ${it.url}`],
      ["404", "other/ws", admin],
      ["503", "cold/ws", admin],
      ["502", "primary/none", admin],
      // The engine's answer leads to another server.
      ["502", "primary/away", admin],
    ] as const)
      assert.equal(await handshake(it.url, `/upstream/${path}`, ...headers), status, `${path} ${headers.join(", ")}`);
    for (const [slot, code, count] of [
      ["primary", 401, 1],
      ["none", 404, 1],
      ["cold", 503, 1],
      ["primary", 502, 2],
    ] as const) {
      const metric = (): Promise<number | undefined> => it.gateway.metric(pageCount(slot, code));
      await until(`${slot} ${code} is counted`, async () => (await metric()) === count);
    }
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
