import assert from "node:assert/strict";
import type { IncomingHttpHeaders } from "node:http";
import { hostname } from "node:os";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { Cors } from "../../../src/gateway/http/cors.ts";
import { HostGuard, type RouteKind } from "../../../src/gateway/http/hosts.ts";
import type { SlotSketch } from "../../support/gateway.ts";
import { codeOf, startGateway } from "../auth/gateway.ts";

const guard = new HostGuard(["svc.local", "AI.example.org"]);

function isLetIn(method: string, kind: RouteKind, headers: IncomingHttpHeaders): boolean {
  try {
    guard.check({ method, headers }, kind);
    return true;
  } catch (error) {
    assert.ok(error instanceof ApiError);
    assert.deepEqual([error.code, error.status], ["auth.forbidden", 403]);
    return false;
  }
}

/** What a browser adds to what a page has it send. */
const crossing: readonly (readonly [headers: IncomingHttpHeaders, isIn: boolean])[] = [
  [{ host: "localhost", "sec-fetch-site": "cross-site" }, false],
  [{ host: "localhost", "sec-fetch-site": "same-site" }, false],
  [{ host: "localhost", "sec-fetch-site": "cross-site", "content-type": "multipart/form-data; boundary=x" }, false],
  [{ host: "localhost", "sec-fetch-site": "cross-site", authorization: "Basic YTpi" }, false],
  [{ host: "localhost", origin: "https://evil.example" }, false],
  [{ host: "localhost", origin: "app://obsidian.md", authorization: "Bearer svc_x" }, true],
  [{ host: "localhost", "sec-fetch-site": "same-origin" }, true],
  [{ host: "localhost", "sec-fetch-site": "none" }, true],
  [{ host: "berth.default.svc" }, true],
];

/** Over plain HTTP a browser says less: no Sec-Fetch-Site at all, and an Origin only with a POST. */
const browser = { "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0" };

describe("host guard", () => {
  it("knows its own names, on any port", () => {
    const own = [
      "localhost",
      "LOCALHOST",
      "127.0.0.1",
      "192.168.1.2",
      "[::1]",
      "[fe80::1]",
      "svc.local",
      "ai.example.org",
    ];
    for (const name of [...own, hostname(), `${hostname()}.local`, "localhost.", "svc.local."]) {
      assert.ok(isLetIn("GET", "api", { host: name }), name);
      assert.ok(isLetIn("GET", "api", { host: `${name}:8080` }), name);
    }
  });

  it("refuses every other name: a page that rebound its own to our address has one", () => {
    const foreign = [
      undefined,
      "",
      "evil.example",
      "evil.example:8080",
      "localhost.evil.example",
      "127.0.0.1.evil.example",
      "evil.example#localhost",
      "svc.local@evil.example",
      "[::1].evil.example]",
      "[evil]",
      "localhost:80:80",
      "2130706433",
      "0x7f.1",
    ];
    for (const host of foreign) {
      assert.equal(isLetIn("GET", "api", { host }), false, host);
      assert.equal(isLetIn("GET", "router", { host }), false, host);
      assert.ok(isLetIn("GET", "other", { host }), "a probe may call us as it likes");
    }
    assert.throws(() => guard.check({ method: "GET", headers: { host: "<script>é" } }, "api"), {
      message: "this service is not called <script>?; see SVC_ALLOWED_HOSTS",
    });
  });

  it("allows mutations to its own pages alone", () => {
    const rows: readonly (readonly [headers: IncomingHttpHeaders, isOwn: boolean])[] = [
      [{ host: "svc.local" }, true],
      [{ host: "svc.local", origin: "https://svc.local" }, true],
      [{ host: "svc.local", origin: "https://svc.local", "sec-fetch-site": "same-origin" }, true],
      [{ host: "svc.local", "sec-fetch-site": "none" }, true],
      [{ host: "svc.local:443", origin: "https://svc.local" }, true],
      [{ host: "svc.local:8443", origin: "https://svc.local:8443" }, true],
      [{ host: "[::1]:8080", origin: "http://[::1]:8080" }, true],
      [{ host: "svc.local", origin: "https://evil.example" }, false],
      [{ host: "svc.local", origin: "https://svc.local.evil.example" }, false],
      [{ host: "svc.local", origin: "https://svc.local:8443" }, false],
      [{ host: "127.0.0.1:8080", origin: "http://127.0.0.1:3000" }, false],
      [{ host: "127.0.0.1:8080", origin: "http://localhost:8080" }, false],
      [{ host: "svc.local", origin: "null" }, false],
      [{ host: "svc.local", origin: "" }, false],
      [{ host: "svc.local", origin: "file://" }, false],
      [{ host: "svc.local", "sec-fetch-site": "cross-site" }, false],
      [{ host: "svc.local", "sec-fetch-site": "same-site" }, false],
      [{ host: "svc.local", origin: "https://svc.local", "sec-fetch-site": "cross-site" }, false],
    ];
    for (const [headers, isOwn] of rows) {
      for (const method of ["POST", "PUT", "DELETE", "PATCH"]) {
        assert.equal(isLetIn(method, "api", headers), isOwn, `${method} ${JSON.stringify(headers)}`);
      }
      assert.ok(isLetIn("GET", "api", headers), "reading is the browser's to forbid");
    }
  });

  it("leaves /v1 to programs, and keeps pages of other sites out of it", () => {
    const json = "application/json; charset=utf-8";
    const rows: readonly (readonly [headers: IncomingHttpHeaders, isIn: boolean])[] = [
      [{ host: "berth.default.svc" }, true],
      [{ host: "berth.default.svc", "content-type": "text/plain" }, true],
      [{ host: "localhost", origin: "app://obsidian.md", "content-type": json }, true],
      [{ host: "localhost", origin: "app://obsidian.md", "content-type": "multipart/form-data; boundary=x" }, false],
      [{ host: "localhost", origin: "https://evil.example", "content-type": "text/plain" }, false],
      [{ host: "localhost", origin: "https://evil.example", "content-type": "application/jsonp" }, false],
      [{ host: "localhost", origin: "https://evil.example" }, false],
      [{ host: "evil.example", origin: "http://evil.example", "content-type": json }, false],
      [{ host: "localhost", origin: "http://localhost", "content-type": "multipart/form-data; boundary=x" }, true],
    ];
    for (const [headers, isIn] of [...rows, ...crossing]) {
      assert.equal(isLetIn("POST", "v1", headers), isIn, JSON.stringify(headers));
      assert.equal(isLetIn("POST", "engine", headers), isIn, JSON.stringify(headers));
    }
  });

  it("lets programs for llama-server's router in by its own names, and no page of another site", () => {
    const json = { "content-type": "application/json" };
    assert.ok(isLetIn("GET", "router", { host: "svc.local:8080" }));
    assert.ok(isLetIn("POST", "router", { host: "svc.local", ...json, authorization: "Bearer x" }));
    assert.ok(isLetIn("POST", "router", { host: "svc.local", ...json, origin: "http://svc.local" }));
    assert.equal(isLetIn("POST", "router", { host: "svc.local", ...json, origin: "app://obsidian.md" }), false);
    assert.equal(isLetIn("POST", "router", { host: "svc.local", ...json, "sec-fetch-site": "cross-site" }), false);
    assert.equal(isLetIn("POST", "router", { host: "svc.local", origin: "https://evil.example" }), false);
    assert.equal(isLetIn("POST", "router", { host: "evil.example", ...json, authorization: "Bearer x" }), false);
  });

  it("keeps pictures, links and forms of other sites from every engine, with any method", () => {
    for (const [headers, isIn] of crossing)
      for (const method of ["GET", "HEAD"])
        assert.equal(isLetIn(method, "engine", headers), isIn, JSON.stringify(headers));
    assert.ok(isLetIn("GET", "v1", { host: "localhost", "sec-fetch-site": "cross-site" }), "a list loads nothing");
    assert.equal(
      isLetIn("GET", "v1", { host: "evil.example", "sec-fetch-site": "same-origin" }),
      false,
      "a rebound name",
    );
  });

  it("knows a browser that does not say which site sends the request, as over plain HTTP", () => {
    const lan = { ...browser, host: "192.168.1.2:8080" };
    const rebound = { ...browser, host: "evil.example:8080" };
    for (const method of ["GET", "HEAD"]) {
      assert.equal(isLetIn(method, "engine", lan), false, "a picture of another site loads no model");
      assert.ok(isLetIn(method, "engine", { ...lan, "content-type": "application/json" }), "the chat's own request");
      assert.ok(isLetIn(method, "engine", { ...lan, authorization: "Bearer svc_x" }));
      assert.ok(isLetIn(method, "v1", lan), "a person who looks at the list");
      assert.equal(isLetIn(method, "v1", rebound), false, "a rebound name");
      assert.equal(isLetIn(method, "engine", { ...rebound, "content-type": "application/json" }), false);
    }
    assert.ok(isLetIn("GET", "v1", { host: "berth:8080", "user-agent": "python-httpx/0.28" }));
  });

  it("lets a page of a configured origin call /v1 with any headers, and no other routes", () => {
    const welcoming = new HostGuard(["svc.local"], new Cors(["https://chat.example"]));
    const page = (origin: string, kind: RouteKind) => () =>
      welcoming.check(
        { method: "POST", headers: { host: "ai.lan:8080", origin, "content-type": "multipart/form-data; boundary=x" } },
        kind,
      );
    assert.doesNotThrow(page("https://chat.example", "v1"));
    assert.throws(page("https://chat.example.evil.example", "v1"), { code: "auth.forbidden" });
    assert.throws(page("https://chat.example", "api"), { code: "auth.forbidden" });
  });

  it("matches patterns of origins, each star within its own part", () => {
    const cors = new Cors(["https://*.Example", "http://localhost:*", "app://*", "http://*:3000/"]);
    for (const origin of ["https://a.example", "https://A.b.example", "http://localhost:5173", "app://obsidian.md"])
      assert.ok(cors.isWelcome(origin), origin);
    assert.ok(cors.isWelcome("http://10.0.0.7:3000"));
    for (const origin of [
      "https://example",
      "http://a.example",
      "https://a.example:444",
      "https://a.example.evil.test",
      "https://evil.test/.example",
      "http://localhost",
      "http://localhost:80.evil.test",
      "http://evil.test:3000.example",
      "null",
    ])
      assert.equal(cors.isWelcome(origin), false, origin);
  });
});

describe("a browser's page", { concurrency: true }, () => {
  it("that rebound its name reads neither slots nor models nor the front page, with authentication on or off", async () => {
    for (const env of [{}, { SVC_AUTH_ENABLED: "1" }]) {
      await using gateway = await startGateway(env);
      const token = { authorization: `Bearer ${await gateway.token("admin")}` };
      const models = ["/models", "/models/sse", "/%6dodels", "/models/nothing"];
      for (const path of ["/api/slots", "/%61pi/slots", "/", "/api/status", `http://x/api/slots`, ...models]) {
        const answer = await gateway.ask("GET", path, { host: "evil.example", ...token });
        assert.equal(codeOf(answer), "auth.forbidden", path);
      }
      assert.equal((await gateway.ask("GET", "/models", { host: "localhost", ...token })).status, 200);
      assert.equal((await gateway.ask("GET", "/livez", { host: "10-0-0-7.pod" })).status, 200);
      assert.equal((await gateway.ask("GET", "/v1/models", { host: "berth.svc" })).status, 200);
    }
  });

  it("that rebound its name calls /v1 with no text as a token, and a program that looks like it does with a valid one", async () => {
    const rebound = { ...browser, host: "berth.lan:8080", "content-type": "application/json" };
    // It needs no token.
    const list = "/v1/models";
    for (const env of [{}, { SVC_AUTH_ENABLED: "1" }]) {
      await using gateway = await startGateway(env);
      const isChecked = "SVC_AUTH_ENABLED" in env;
      const token = await gateway.token("v1-only");
      for (const path of [list, "/v1/audio/voices", "/api/images/cache/00000000-0000-4000-8000-000000000000.png"])
        for (const [headers, refused, isIn] of [
          [{}, "auth.forbidden", false],
          [{ authorization: "Bearer anything" }, isChecked && path !== list ? "auth.invalid" : "auth.forbidden", false],
          [{ authorization: "Basic YTpi" }, "auth.forbidden", false],
          [{ authorization: `Bearer ${token}` }, "auth.forbidden", isChecked],
          [{ "x-api-key": token }, "auth.forbidden", isChecked],
        ] as const) {
          const answer = await gateway.ask("GET", path, { ...rebound, ...headers });
          const isServed = answer.status !== 403 && answer.status !== 401;
          assert.equal(isServed, isIn, `${path} ${JSON.stringify(headers)} ${answer.status}`);
          if (!isIn) assert.equal(codeOf(answer), refused);
        }
      const admin = { ...rebound, authorization: `Bearer ${await gateway.token("admin")}` };
      assert.equal(codeOf(await gateway.ask("GET", "/api/slots", admin)), "auth.forbidden");
    }
  });

  it("of another host reads no drawn picture, and a program reads it by the name that it drew the picture by", async () => {
    await using gateway = await startGateway();
    const path = "/api/images/cache/00000000-0000-4000-8000-000000000000.png";
    assert.equal((await gateway.ask("GET", path, { host: "berth:8080" })).status, 404);
    assert.equal((await gateway.ask("GET", path, { host: "berth:8080", ...browser })).status, 403);
    assert.equal((await gateway.ask("GET", path, { host: "localhost", ...browser })).status, 404);
  });

  it("of another site makes no token with the proxy's identity that the browser sends along", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1", SVC_ALLOWED_HOSTS: "ai.example.org" });
    const body = JSON.stringify({ label: "stolen", scope: "admin" });
    const own = { host: "ai.example.org", "x-forwarded-email": "ada", "content-type": "application/json" };
    const crossing = [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }, { origin: "null" }];
    for (const headers of crossing) {
      const answer = await gateway.ask("POST", "/api/auth/tokens", { ...own, ...headers }, body);
      assert.equal(codeOf(answer), "auth.forbidden", JSON.stringify(headers));
    }
    // A form needs no leave to cross sites, so what a form can send is no request to change something.
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
      const answer = await gateway.ask("POST", "/api/auth/tokens", { ...own, "content-type": type }, body);
      assert.equal(codeOf(answer), "dispatch.unsupported_media_type", type);
    }
    const { "content-type": _, ...bare } = own;
    assert.equal(codeOf(await gateway.ask("POST", "/api/auth/tokens", bare, body)), "dispatch.unsupported_media_type");
    assert.deepEqual(await gateway.tokens.list(), []);
    const origin = { origin: "https://ai.example.org", "sec-fetch-site": "same-origin" };
    assert.equal((await gateway.ask("POST", "/api/auth/tokens", { ...own, ...origin }, body)).status, 201);
  });

  it("of another site wakes no slot: neither a picture nor a form is served", async () => {
    const sleeping: SlotSketch = { state: "offline", status: { capabilities: ["speech", "transcription", "chat"] } };
    await using gateway = await startGateway({}, { tts: sleeping, stt: sleeping });
    const cross = { host: "localhost", "sec-fetch-site": "cross-site" };
    assert.equal(codeOf(await gateway.ask("GET", "/v1/audio/voices", cross)), "auth.forbidden");
    const form = { ...cross, "content-type": "multipart/form-data; boundary=x" };
    const body = '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nstt\r\n--x--\r\n';
    assert.equal(codeOf(await gateway.ask("POST", "/v1/audio/transcriptions", form, body)), "auth.forbidden");
    for (const slot of ["tts", "stt"]) assert.equal(gateway.demand(slot)?.lastRequestAt, undefined, slot);
    assert.equal((await gateway.ask("GET", "/v1/models", cross)).status, 200);
  });

  it("keeps no answer of the API on disk", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" });
    const admin = { authorization: `Bearer ${await gateway.token("admin")}` };
    for (const path of ["/api/slots", "/api/conversations", "/chat/api/conversations", "/api/nothing"])
      assert.equal((await gateway.ask("GET", path, admin)).headers["cache-control"], "no-store", path);
    const body = JSON.stringify({ label: "phone", scope: "v1-only" });
    assert.equal((await gateway.ask("POST", "/api/auth/tokens", admin, body)).headers["cache-control"], "no-store");
  });

  it("may not frame, sniff or embed an answer", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" });
    const admin = { authorization: `Bearer ${await gateway.token("admin")}` };
    for (const [method, path] of [
      ["GET", "/"],
      ["GET", "/api/slots"],
      ["GET", "/api/nothing"],
      ["GET", "/v1/models"],
      ["POST", "/v1/chat/completions"],
    ] as const) {
      const { headers } = await gateway.ask(method, path, admin, method === "POST" ? "{}" : undefined);
      assert.equal(headers["x-content-type-options"], "nosniff", path);
      assert.match(String(headers["content-type"]), /^(application\/json|text\/html); charset=utf-8$/);
      assert.equal(headers["access-control-allow-origin"], undefined, path);
      if (method === "POST") continue;
      assert.equal(headers["x-frame-options"], "DENY", path);
      assert.match(String(headers["content-security-policy"]), /frame-ancestors 'none'/);
    }
    const preflight = { origin: "https://evil.example", "access-control-request-method": "POST" };
    const { headers } = await gateway.ask("OPTIONS", "/api/auth/tokens", { ...preflight, host: "localhost" });
    assert.equal(headers["access-control-allow-origin"], undefined);
  });

  it("or a program may send only JSON, and none that sets a prototype", async () => {
    await using gateway = await startGateway();
    const send = async (body: string, type = "application/json"): Promise<string> =>
      codeOf(await gateway.ask("POST", "/api/auth/tokens", { "content-type": type }, body));
    for (const body of [
      '{"__proto__":{"scope":"admin"},"label":"a"}',
      '{"constructor":{"prototype":{"scope":"admin"}},"label":"a","scope":"all"}',
      '{"label":"a","scope":"all","__proto__":null}',
      "{",
      "",
    ]) {
      assert.equal(await send(body), "dispatch.invalid_request", body);
    }
    assert.equal(Object.hasOwn(Object.prototype, "scope"), false);
    assert.equal(await send("{}", "application/jsonx"), "dispatch.unsupported_media_type");
    assert.equal(await send(`{"label":"${"a".repeat(1_100_000)}"}`), "dispatch.payload_too_large");
    assert.deepEqual(await gateway.tokens.list(), []);
  });
});
