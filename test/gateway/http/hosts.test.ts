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

type Row = readonly [
  kinds: readonly RouteKind[],
  methods: readonly string[],
  isIn: boolean,
  ...headers: readonly IncomingHttpHeaders[],
];

const json = "application/json; charset=utf-8";
const form = "multipart/form-data; boundary=x";
const evil = "https://evil.example";
const fromOrigin = (origin: string): IncomingHttpHeaders => ({ host: "svc.local", origin });
const mutations = ["POST", "PUT", "DELETE", "PATCH"];
const reads = ["GET", "HEAD"];
const lan = { ...browser, host: "192.168.1.2:8080" };
const rebound = { ...browser, host: "evil.example:8080" };
const crossed = crossing.filter(([, isIn]) => !isIn).map(([headers]) => headers);
const uncrossed = crossing.filter(([, isIn]) => isIn).map(([headers]) => headers);

const tables: Readonly<Record<string, readonly Row[]>> = {
  "mutations to its own pages alone": [
    [
      ["api"],
      mutations,
      true,
      { host: "svc.local" },
      fromOrigin("https://svc.local"),
      { ...fromOrigin("https://svc.local"), "sec-fetch-site": "same-origin" },
      { host: "svc.local", "sec-fetch-site": "none" },
      { host: "svc.local:443", origin: "https://svc.local" },
      { host: "svc.local:8443", origin: "https://svc.local:8443" },
      { host: "[::1]:8080", origin: "http://[::1]:8080" },
    ],
    [
      ["api"],
      mutations,
      false,
      ...[evil, "https://svc.local.evil.example", "https://svc.local:8443", "null", "", "file://"].map(fromOrigin),
      { host: "127.0.0.1:8080", origin: "http://127.0.0.1:3000" },
      { host: "127.0.0.1:8080", origin: "http://localhost:8080" },
      ...["cross-site", "same-site"].map((site) => ({ host: "svc.local", "sec-fetch-site": site })),
      { ...fromOrigin("https://svc.local"), "sec-fetch-site": "cross-site" },
    ],
    // Reading is the browser's to forbid.
    [["api"], ["GET"], true, { host: "svc.local", origin: evil, "sec-fetch-site": "cross-site" }],
  ],
  "/v1 to programs, and no pages of other sites": [
    [
      ["v1", "engine"],
      ["POST"],
      true,
      ...uncrossed,
      { host: "berth.default.svc", "content-type": "text/plain" },
      { host: "localhost", origin: "app://obsidian.md", "content-type": json },
      { host: "localhost", origin: "http://localhost", "content-type": form },
    ],
    [
      ["v1", "engine"],
      ["POST"],
      false,
      ...crossed,
      { host: "localhost", origin: "app://obsidian.md", "content-type": form },
      { host: "localhost", origin: evil, "content-type": "text/plain" },
      { host: "localhost", origin: evil, "content-type": "application/jsonp" },
      { host: "evil.example", origin: "http://evil.example", "content-type": json },
    ],
  ],
  "programs for llama-server's router by its own names, and no page of another site": [
    [["router"], ["GET"], true, { host: "svc.local:8080" }],
    [
      ["router"],
      ["POST"],
      true,
      { host: "svc.local", "content-type": json, authorization: "Bearer x" },
      { host: "svc.local", "content-type": json, origin: "http://svc.local" },
    ],
    [
      ["router"],
      ["POST"],
      false,
      { host: "svc.local", "content-type": json, origin: "app://obsidian.md" },
      { host: "svc.local", "content-type": json, "sec-fetch-site": "cross-site" },
      { host: "svc.local", origin: evil },
      { host: "evil.example", "content-type": json, authorization: "Bearer x" },
    ],
  ],
  "no pictures, links and forms of other sites to an engine, with any method": [
    [["engine"], reads, true, ...uncrossed],
    [["engine"], reads, false, ...crossed],
    // A list loads nothing.
    [["v1"], ["GET"], true, { host: "localhost", "sec-fetch-site": "cross-site" }],
    [["v1"], ["GET"], false, { host: "evil.example", "sec-fetch-site": "same-origin" }],
  ],
  "no browser that hides which site sends the request, as over plain HTTP": [
    // The chat's own request, a token, and a person who looks at the list.
    [["engine"], reads, true, { ...lan, "content-type": json }, { ...lan, authorization: "Bearer svc_x" }],
    [["v1"], reads, true, lan, { host: "berth:8080", "user-agent": "python-httpx/0.28" }],
    // A picture of another site loads no model.
    [["engine"], reads, false, lan, { ...rebound, "content-type": json }],
    [["v1"], reads, false, rebound],
  ],
};

describe("host guard", () => {
  it("knows its own names, on any port", () => {
    const own = ["localhost", "LOCALHOST", "127.0.0.1", "192.168.1.2", "[::1]", "[fe80::1]", "svc.local", "svc.local."];
    for (const name of [...own, "ai.example.org", hostname(), `${hostname()}.local`, "localhost."])
      for (const host of [name, `${name}:8080`]) assert.ok(isLetIn("GET", "api", { host }), host);
  });

  it("refuses every other name: a page that rebound its own to our address has one", () => {
    const near = ["localhost.evil.example", "127.0.0.1.evil.example", "[::1].evil.example]", "svc.local@evil.example"];
    const odd = [undefined, "", "evil.example#localhost", "[evil]", "localhost:80:80", "2130706433", "0x7f.1"];
    for (const host of [...near, ...odd, "evil.example", "evil.example:8080"]) {
      assert.equal(isLetIn("GET", "api", { host }), false, host);
      assert.equal(isLetIn("GET", "router", { host }), false, host);
      assert.ok(isLetIn("GET", "other", { host }), "a probe may call us as it likes");
    }
    assert.throws(() => guard.check({ method: "GET", headers: { host: "<script>é" } }, "api"), {
      message: "this service is not called <script>?; see SVC_ALLOWED_HOSTS",
    });
  });

  for (const [what, table] of Object.entries(tables))
    it(`allows ${what}`, () => {
      for (const [kinds, methods, isIn, ...requests] of table)
        for (const kind of kinds)
          for (const method of methods)
            for (const headers of requests)
              assert.equal(isLetIn(method, kind, headers), isIn, `${method} ${kind} ${JSON.stringify(headers)}`);
    });

  it("lets a page of a configured origin call /v1 with any headers, and no other routes", () => {
    const welcoming = new HostGuard(["svc.local"], new Cors(["https://chat.example"]));
    const page = (origin: string, kind: RouteKind) => () =>
      welcoming.check({ method: "POST", headers: { host: "ai.lan:8080", origin, "content-type": form } }, kind);
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
    const foreign = { ...browser, host: "berth.lan:8080", "content-type": "application/json" };
    const picture = "/api/images/cache/00000000-0000-4000-8000-000000000000.png";
    for (const isChecked of [false, true]) {
      await using gateway = await startGateway(isChecked ? { SVC_AUTH_ENABLED: "1" } : {});
      const token = await gateway.token("v1-only");
      // The list needs no token.
      for (const path of ["/v1/models", "/v1/audio/voices", picture])
        for (const [headers, isIn] of [
          [{}, false],
          [{ authorization: "Bearer anything" }, false],
          [{ authorization: "Basic YTpi" }, false],
          [{ authorization: `Bearer ${token}` }, isChecked],
          [{ "x-api-key": token }, isChecked],
        ] as const) {
          const { status } = await gateway.ask("GET", path, { ...foreign, ...headers });
          assert.equal(status !== 403 && status !== 401, isIn, `${path} ${JSON.stringify(headers)} ${status}`);
        }
      const admin = { ...foreign, authorization: `Bearer ${await gateway.token("admin")}` };
      assert.equal(codeOf(await gateway.ask("GET", "/api/slots", admin)), "auth.forbidden");
      if (isChecked) continue;
      // A program reads a drawn picture by the name that it drew the picture by.
      for (const [status, headers] of [
        [404, { host: "berth:8080" }],
        [403, { host: "berth:8080", ...browser }],
        [404, { host: "localhost", ...browser }],
      ] as const)
        assert.equal((await gateway.ask("GET", picture, headers)).status, status);
    }
  });

  it("of another site makes no token with the proxy's identity that the browser sends along", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1", SVC_ALLOWED_HOSTS: "ai.example.org" });
    const body = JSON.stringify({ label: "stolen", scope: "admin" });
    const own = { host: "ai.example.org", "x-forwarded-email": "ada", "content-type": "application/json" };
    for (const headers of [{ origin: evil }, { "sec-fetch-site": "cross-site" }, { origin: "null" }]) {
      const answer = await gateway.ask("POST", "/api/auth/tokens", { ...own, ...headers }, body);
      assert.equal(codeOf(answer), "auth.forbidden", JSON.stringify(headers));
    }
    assert.deepEqual(await gateway.tokens.list(), []);
    const same = { ...own, origin: "https://ai.example.org", "sec-fetch-site": "same-origin" };
    assert.equal((await gateway.ask("POST", "/api/auth/tokens", same, body)).status, 201);
  });

  it("of another site wakes no slot: neither a picture nor a form is served", async () => {
    const sleeping: SlotSketch = { state: "offline", status: { capabilities: ["speech", "transcription", "chat"] } };
    await using gateway = await startGateway({}, { tts: sleeping, stt: sleeping });
    const cross = { host: "localhost", "sec-fetch-site": "cross-site", "content-type": form };
    assert.equal(codeOf(await gateway.ask("GET", "/v1/audio/voices", cross)), "auth.forbidden");
    const body = '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nstt\r\n--x--\r\n';
    assert.equal(codeOf(await gateway.ask("POST", "/v1/audio/transcriptions", cross, body)), "auth.forbidden");
    for (const slot of ["tts", "stt"]) assert.equal(gateway.demand(slot)?.lastRequestAt, undefined, slot);
    assert.equal((await gateway.ask("GET", "/v1/models", cross)).status, 200);
  });

  it("may not frame, sniff, embed or keep an answer", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" });
    const admin = { authorization: `Bearer ${await gateway.token("admin")}` };
    const token = JSON.stringify({ label: "phone", scope: "v1-only" });
    for (const [path, isPage, isKept, body] of [
      ["/", true, true],
      ["/api/slots", true, false],
      ["/api/conversations", true, false],
      ["/chat/api/conversations", true, false],
      ["/api/nothing", true, false],
      ["/api/auth/tokens", true, false, token],
      ["/v1/models", true, true],
      ["/v1/chat/completions", false, true, "{}"],
    ] as const) {
      const { headers } = await gateway.ask(body === undefined ? "GET" : "POST", path, admin, body);
      if (!isKept) assert.equal(headers["cache-control"], "no-store", path);
      assert.equal(headers["x-content-type-options"], "nosniff", path);
      assert.match(String(headers["content-type"]), /^(application\/json|text\/html); charset=utf-8$/);
      assert.equal(headers["access-control-allow-origin"], undefined, path);
      if (!isPage) continue;
      assert.equal(headers["x-frame-options"], "DENY", path);
      assert.match(String(headers["content-security-policy"]), /frame-ancestors 'none'/);
    }
    const preflight = { origin: evil, "access-control-request-method": "POST", host: "localhost" };
    const { headers } = await gateway.ask("OPTIONS", "/api/auth/tokens", preflight);
    assert.equal(headers["access-control-allow-origin"], undefined);
  });
});
