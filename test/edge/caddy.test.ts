import assert from "node:assert/strict";
import { get } from "node:http";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { publicPaths, tokenScopes } from "../../src/api/scopes.ts";
import { codeOf, startGateway } from "../gateway/auth/gateway.ts";
import { berthProcess } from "../support/command.ts";
import { chunk } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { askSecurely, basic, password, startEdge, user, type Edge } from "./site.ts";

const json = { "content-type": "application/json" };
const chat = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }] });
const wrong = `svc_nobody22.${"A".repeat(43)}`;

/** The specification's Authentication section, statement by statement, through a real Caddy. */
describe("the edge proxy", () => {
  let edge: Edge;
  before(async () => {
    edge = await startEdge();
  });
  after(() => edge[Symbol.asyncDispose]());
  const bearer = async (scope: (typeof tokenScopes)[number]): Promise<Record<string, string>> => ({
    authorization: `Bearer ${await edge.gateway.token(scope)}`,
  });
  const me = async (headers: Record<string, string>): Promise<unknown> =>
    JSON.parse((await edge.ask("/api/auth/me", headers)).body);

  describe("modes", () => {
    it("redirects port 80 to HTTPS", async () => {
      const [status, location] = await new Promise<unknown[]>((resolve, reject) => {
        const options = {
          host: "127.0.0.1",
          port: edge.httpPort,
          path: "/v1/models?x=1",
          headers: { host: "svc.local" },
        };
        get(options, (response) => resolve([response.statusCode, response.headers.location])).once("error", reject);
      });
      assert.deepEqual([status, location], [308, "https://svc.local/v1/models?x=1"]);
    });

    it("asks for a password in front of the dashboard, and for a token in front of /v1", async () => {
      const page = await edge.ask("/");
      assert.deepEqual([page.status, codeOf(page)], [401, "auth.required"]);
      assert.equal(page.headers["www-authenticate"], 'Basic realm="Berth"');
      const api = await edge.ask("/v1/chat/completions", json, { method: "POST", body: chat });
      assert.deepEqual([api.status, codeOf(api)], [401, "auth.required"]);
      assert.equal(api.headers["www-authenticate"], "Bearer");
    });

    it("forwards to the API, which listens on loopback only", async () => {
      assert.equal(edge.gateway.url, `http://127.0.0.1:${edge.gateway.port}`);
      const answer = await edge.ask(
        "/v1/chat/completions",
        { ...json, ...(await bearer("v1-only")) },
        { method: "POST", body: chat },
      );
      assert.equal(answer.status, 200);
      assert.match(answer.body, /"content":"hello"/);
    });

    it("is rolled back by SVC_AUTH_ENABLED=0: everything is open again, on the same state", async () => {
      await using open = await startGateway({ SVC_AUTH_ENABLED: "0", SVC_STATE_DIR: edge.gateway.stateDir });
      assert.equal((await open.ask("GET", "/api/slots")).status, 200);
      assert.equal((await open.ask("GET", "/api/auth/tokens")).status, 200);
      assert.equal((await open.ask("POST", "/v1/chat/completions", json, chat)).status, 200);
    });
  });

  describe("for browsers", () => {
    it("checks the password against a bcrypt hash, and refuses every other one", async () => {
      assert.deepEqual(await me(basic), { identity: user, scope: "admin", source: "proxy" });
      const rows = [`${user}:wrong`, `${user}:`, `${user}:${password}x`, `eve:${password}`, `:${password}`];
      for (const pair of rows) {
        const answer = await edge.ask("/api/auth/me", {
          authorization: `Basic ${Buffer.from(pair).toString("base64")}`,
        });
        assert.equal(answer.status, 401, pair);
      }
    });

    it("keeps the password nowhere", async () => {
      for (const root of [edge.directory, edge.gateway.stateDir]) {
        // Both programs go on writing: a file that one of them renames between the list and its reading is in the next list.
        const files = await until("each file of a list is read", async () => {
          const entries = await readdir(root, { recursive: true, withFileTypes: true });
          return await Promise.all(
            entries
              .filter((entry) => entry.isFile())
              .map(async ({ name, parentPath }) => [name, await readFile(join(parentPath, name), "latin1")] as const),
          );
        });
        for (const [name, text] of files) {
          assert.equal(text.includes(password), false, name);
          assert.equal(text.includes(basic.authorization.slice(6)), false, name);
        }
      }
      assert.equal(edge.proxyLog().includes(password) || edge.gateway.log().includes(password), false);
      const admin = join(edge.gateway.stateDir, "auth/admin.json");
      assert.equal((await stat(admin)).mode & 0o777, 0o600);
      assert.match(await readFile(admin, "utf8"), /"bcrypt":"\$2b\$12\$/);
    });

    it("removes a client's X-Forwarded-Email in any spelling, then names the user who logged in", async () => {
      for (const name of ["x-forwarded-email", "X-Forwarded-Email", "X-FORWARDED-EMAIL"]) {
        assert.deepEqual(await me({ ...basic, [name]: "eve" }), { identity: user, scope: "admin", source: "proxy" });
        const forged = await edge.ask("/api/slots", { [name]: "eve" });
        assert.equal(forged.status, 401, name);
        assert.equal(codeOf(await edge.ask("/v1/models/none", { [name]: "eve" })), "auth.required");
        const withToken = await edge.ask("/api/auth/me", { ...(await bearer("all")), [name]: "eve" });
        assert.match(withToken.body, /"identity":"a all"/);
      }
    });

    it("makes the user an admin", async () => {
      const body = JSON.stringify({ label: "from the browser", scope: "v1-only" });
      const own = { ...basic, ...json, origin: `https://svc.local:${edge.httpsPort}`, "sec-fetch-site": "same-origin" };
      const created = await edge.ask("/api/auth/tokens", own, { method: "POST", body });
      assert.equal(created.status, 201);
      const foreign = { ...own, origin: "https://evil.example", "sec-fetch-site": "cross-site" };
      assert.equal(codeOf(await edge.ask("/api/auth/tokens", foreign, { method: "POST", body })), "auth.forbidden");
    });

    it("serves the chat page below /chat/ with the user's name, and never his password", async () => {
      const before = edge.chatSeen.length;
      assert.equal((await edge.ask("/chat/")).status, 401);
      assert.equal((await edge.ask("/chat/", { "x-forwarded-email": "eve" })).status, 401);
      assert.equal((await edge.ask("/chat/", await bearer("admin"))).status, 404, "a token is the API's");
      assert.equal(edge.chatSeen.length, before);
      assert.equal((await edge.ask("/chat/room?x=1", { ...basic, "x-forwarded-email": "eve" })).body, "the chat page");
      const seen = edge.chatSeen.at(-1);
      assert.equal(seen?.path, "/room?x=1");
      assert.equal(seen?.headers["x-forwarded-email"], user);
      assert.equal(seen?.headers.authorization, undefined);
      const { status, headers } = await edge.ask("/chat", basic);
      assert.deepEqual([status, headers["location"]], [308, "/chat/"]);
    });
  });

  describe("for programs", () => {
    it("lets a token in by its id and secret, with its label and scope", async () => {
      for (const scope of tokenScopes) {
        assert.deepEqual(await me(await bearer(scope)), { identity: `a ${scope}`, scope, source: "token" });
      }
    });

    it("answers 401 auth.invalid where nothing matches, auth.required where nothing is sent", async () => {
      const good = await edge.gateway.token("all");
      for (const token of [
        wrong,
        `${good.slice(0, 13)}${"A".repeat(43)}`,
        `svc_nobody22${good.slice(12)}`,
        "x",
        good.slice(0, -1),
      ]) {
        for (const path of ["/v1/models/none", "/api/slots"]) {
          const answer = await edge.ask(path, { authorization: `Bearer ${token}`, ...json });
          assert.deepEqual([answer.status, codeOf(answer)], [401, "auth.invalid"], path);
        }
      }
      assert.equal(codeOf(await edge.ask("/v1/models/none")), "auth.required");
    });

    it("prefers the bearer: a wrong bearer is 401 even beside a valid user", async () => {
      const direct = await edge.gateway.ask("GET", "/api/auth/me", {
        authorization: `Bearer ${wrong}`,
        "x-forwarded-email": user,
      });
      assert.equal(codeOf(direct), "auth.invalid");
      const both = await edge.gateway.ask("GET", "/api/auth/me", {
        ...(await bearer("read-only")),
        "x-forwarded-email": user,
      });
      assert.deepEqual(JSON.parse(both.body), { identity: "a read-only", scope: "read-only", source: "token" });
    });

    it("refuses a revoked token at its next request", async () => {
      const { token, id } = await edge.gateway.tokens.create({ label: "short-lived", scope: "all" });
      const own = { authorization: `Bearer ${token}` };
      assert.equal((await edge.ask("/api/slots", own)).status, 200);
      const revoked = await edge.ask(`/api/auth/tokens/${id}`, await bearer("admin"), { method: "DELETE" });
      assert.equal(revoked.status, 204);
      assert.equal(codeOf(await edge.ask("/api/slots", own)), "auth.invalid");
    });

    it("throttles the address that the proxy reports, and not the proxy", async () => {
      const limited = await until("the failures count", async () => {
        const answer = await edge.ask("/v1/models/none", { authorization: `Bearer ${wrong}` });
        return answer.status === 429 ? answer : undefined;
      });
      assert.equal(codeOf(limited), "auth.throttled");
      assert.ok(Number(limited.headers["retry-after"]) >= 1);
      assert.equal((await edge.ask("/api/slots", await bearer("all"))).status, 200, "a valid token is never delayed");
    });
  });

  it("grants each scope what the specification says", async () => {
    const wanted = {
      admin: [200, 200, 200],
      all: [200, 200, 403],
      "v1-only": [200, 403, 403],
      "read-only": [403, 200, 403],
    } as const;
    for (const scope of tokenScopes) {
      const own = await bearer(scope);
      const asked = [
        await edge.ask("/v1/chat/completions", { ...json, ...own }, { method: "POST", body: chat }),
        await edge.ask("/api/slots", own),
        await edge.ask("/api/auth/tokens", own),
      ];
      assert.deepEqual(
        asked.map(({ status }) => status),
        wanted[scope],
        scope,
      );
    }
  });

  it("leaves the public routes open", async () => {
    for (const path of publicPaths) {
      const { status, headers } = await edge.ask(path);
      assert.ok(status !== 401 && status !== 403, `${path} gave ${status}`);
      assert.equal(headers["www-authenticate"], undefined, path);
    }
  });

  it("is in the URLs that Berth reports for clients of the proxy", async () => {
    const origin = `https://svc.local:${edge.httpsPort}`;
    const { body } = await edge.ask("/api/config/urls");
    assert.deepEqual(JSON.parse(body), { api: `${origin}/v1`, dashboard: `${origin}/`, chat: `${origin}/chat/` });
  });

  it("cannot be bypassed by another spelling of a path", async () => {
    for (const path of [
      "/v1/../api/slots",
      "/api/status/../slots",
      "//api/slots",
      "/%61pi/slots",
      "/v1/%2e%2e/api/slots",
      "/API/slots",
      "/api/status/..%2fslots",
      "/v1/models/../../api/slots",
    ]) {
      const answer = await edge.ask(path, { "x-forwarded-email": "eve" });
      assert.ok([400, 401, 404, 308].includes(answer.status), `${path} gave ${answer.status}`);
      assert.equal(answer.body.includes('"data"'), false, path);
    }
  });

  it("relays a stream event by event", async () => {
    const gate = Promise.withResolvers<void>();
    edge.engine.answer(async (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(chunk({ role: "assistant", content: "" }));
      response.write(chunk({ content: "early" }));
      await gate.promise;
      response.write(chunk({ content: "late" }));
      response.end("data: [DONE]\n\n");
    });
    const body = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }], stream: true });
    // The rest is written only once the beginning has come through: a proxy that waits would wait for ever.
    const answer = await askSecurely(
      edge.httpsPort,
      edge.root,
      "/v1/chat/completions",
      { ...json, ...(await bearer("v1-only")) },
      { method: "POST", body },
      (bytes) => {
        if (bytes.includes("early")) gate.resolve();
      },
    );
    assert.match(answer.body, /early[\s\S]*late[\s\S]*data: \[DONE\]\n\n$/);
  });

  describe("TLS", () => {
    it("uses its own authority for a .local name: clients that have imported the root trust it, others do not", async () => {
      assert.equal((await askSecurely(edge.httpsPort, edge.root, "/v1/models", {}, {})).status, 200);
      await assert.rejects(askSecurely(edge.httpsPort, undefined, "/v1/models", {}, {}), {
        code: /UNABLE_TO_GET_ISSUER_CERT|SELF_SIGNED_CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE/,
      });
    });
  });

  describe("berth proxy check", () => {
    it("goes the whole round and saves the root for clients", async () => {
      const rootFile = join(edge.directory, "saved.crt");
      const { code, stdout, stderr } = await berthProcess(
        [
          "proxy",
          "check",
          `https://svc.local:${edge.httpsPort}`,
          `--address=127.0.0.1:${edge.httpsPort}`,
          `--http-port=${edge.httpPort}`,
          `--caddy-admin=${edge.caddyAdmin}`,
          `--save-root=${rootFile}`,
        ],
        { ...edge.env, SVC_ADMIN_PASSWORD: password },
      );
      assert.equal(stderr, "");
      // When the certificate ends, and whether the tests before this one have failed too often already, may differ.
      const same = stdout
        .replace(/Intermediate, valid to .* GMT/, "Intermediate, valid to SOON")
        .replaceAll("auth.throttled", "auth.invalid");
      assert.equal(
        same,
        `ok       certificate: by Caddy Local Authority - ECC Intermediate, valid to SOON
ok       port 80 redirects: to https://svc.local/some/path?x=1
ok       people are asked for a password: 401 with a basic challenge
ok       public routes are open: 11 of them
ok       /v1 requires a token, not a password: 401 auth.required
ok       a user that the client names is nobody: X-Forwarded-Email is removed
ok       a wrong token is refused, whoever else is named: auth.invalid
ok       people log in with the password, as themselves: as ${user}
ok       a token is let in, and wins over a named user: as proxy check
ok       streams are not held back: the first event arrived at once
ok       a revoked token is refused at its next request: auth.invalid
`,
      );
      assert.equal(code, 0);
      assert.equal((await readFile(rootFile, "utf8")).trim(), edge.root.trim());
      const labels = (await edge.gateway.tokens.list()).map(({ label }) => label);
      assert.equal(labels.includes("proxy check"), false, "it leaves no token behind");
    });

    it("fails without a proxy, and names the cause", async () => {
      const { code, stdout } = await berthProcess(
        ["proxy", "check", "--address", `127.0.0.1:${edge.gateway.port}`, "--caddy-admin", edge.caddyAdmin],
        edge.env,
      );
      assert.equal(code, 1);
      assert.match(stdout, /^failed {3}certificate: /m);
    });
  });
});
