import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fastify } from "fastify";
import {
  isGranted,
  probePaths,
  publicPaths,
  tokenScopes,
  type ScopeClass,
  type TokenScope,
} from "../../../src/api/scopes.ts";
import { Gate } from "../../../src/gateway/auth/gate.ts";
import { guardRoutes } from "../../../src/gateway/auth/hook.ts";
import { HostGuard } from "../../../src/gateway/http/hosts.ts";
import { answerTasks } from "../management/fixture.ts";
import { codeOf, startGateway, type TestGateway } from "./gateway.ts";

/** CONTRACT "Auth", spelt out: what each scope may call. */
const granted: Readonly<Record<TokenScope, readonly ScopeClass[]>> = {
  admin: ["public", "any", "v1", "read", "admin"],
  all: ["public", "any", "v1", "read"],
  "v1-only": ["public", "any", "v1"],
  "read-only": ["public", "any", "read"],
};

/**
 * Routes that need no credentials: the service specification's list, the probes, a second name of the metrics, and the list of
 * models in the dialect of llama-server's router.
 */
const open: readonly string[] = [
  "/api/auth/login",
  "/api/auth/status",
  "/api/config/urls",
  "/api/features",
  "/api/health/system",
  "/api/install/complete",
  "/api/install/state",
  "/api/metrics",
  "/api/status",
  "/health",
  "/livez",
  "/metrics",
  "/models",
  "/readyz",
  "/v1/models",
];

describe("scope matrix", () => {
  it("follows the contract, and opens the routes that the specification opens", () => {
    assert.deepEqual([...publicPaths, ...probePaths].toSorted(), open);
    for (const scope of tokenScopes) {
      for (const wanted of ["public", "any", "v1", "read", "admin"] as const) {
        assert.equal(isGranted(scope, wanted), granted[scope].includes(wanted), `${scope} ${wanted}`);
      }
    }
  });

  describe("the scopes of all routes", () => {
    let gateway: TestGateway;
    const owned = new AsyncDisposableStack();
    before(async () => {
      gateway = owned.use(await startGateway({ SVC_AUTH_ENABLED: "1" }));
      // A request about the files of models waits a minute for an answer.
      owned.use(await answerTasks(gateway.stateDir, () => ({ error: "a double has no files" })));
    });
    after(() => owned.disposeAsync());

    it("leave only the known public routes open, and require admin to change anything but the mark of the first run and a caller's own conversations", () => {
      const { routes } = gateway.running;
      assert.ok(routes.length > 20);
      const isLoose = ({ method, path, scope }: (typeof routes)[number]): boolean =>
        path.startsWith("/api") && !["GET", "HEAD"].includes(method) && scope !== "admin";
      const own = /^\/api\/(install\/complete$|conversations)/;
      const strange = routes.filter((route) =>
        route.scope === "public" ? !open.includes(route.path) : isLoose(route) && !own.test(route.path),
      );
      assert.deepEqual(strange, []);
    });

    it("are enforced at every route", async () => {
      for (const { method, path, scope } of gateway.running.routes) {
        const url = path.replaceAll(/:[a-z]+/g, "nothing").replace("*", "nothing");
        const body = method === "POST" || method === "PUT" ? "{}" : undefined;
        const ask = async (headers: Record<string, string>): Promise<string> => {
          const answer = await gateway.ask(method, url, { "content-type": "application/json", ...headers }, body);
          if (method === "HEAD" || answer.status < 400) return String(answer.status);
          return codeOf(answer);
        };
        const what = `${method} ${url} (${scope})`;
        const isHead = method === "HEAD";
        const stranger = await ask({});
        if (scope === "public") assert.doesNotMatch(stranger, /^(auth|401|403)/, what);
        else assert.equal(stranger, isHead ? "401" : "auth.required", what);
        for (const token of tokenScopes) {
          const code = await ask({ authorization: `Bearer ${await gateway.token(token)}` });
          if (granted[token].includes(scope)) assert.doesNotMatch(code, /^(auth|401|403)/, `${what} by ${token}`);
          else assert.equal(code, isHead ? "403" : "auth.forbidden", `${what} by ${token}`);
        }
      }
    });

    it("hide which paths exist below /api and /v1 without credentials; with credentials unknown paths are 404", async () => {
      for (const path of ["/api/nothing", "/v1/nothing", "/%61pi/nothing", "/api", "/v1", "/api/slots/a/nothing"]) {
        const stranger = await gateway.ask("GET", path);
        // A path that is spelt in another way leads nowhere, whoever asks.
        assert.match(codeOf(stranger), path.startsWith("/%") ? /^system\.not_found$/ : /^auth\.required$/, path);
        const admin = await gateway.ask("GET", path, { authorization: `Bearer ${await gateway.token("read-only")}` });
        assert.equal(codeOf(admin), "system.not_found", path);
      }
      for (const path of publicPaths) {
        const { status } = await gateway.ask("DELETE", path);
        assert.ok(status === 404 || status === 405, `${path} is public, whatever it answers: ${status}`);
      }
      assert.equal(codeOf(await gateway.ask("POST", "/api/nothing", {}, "{}")), "auth.required");
      assert.equal(codeOf(await gateway.ask("DELETE", "/v1/chat/completions")), "auth.required");
    });

    it("cannot be bypassed by another spelling of a path", async () => {
      const base = `http://127.0.0.1:${gateway.running.port}`;
      const spellings = [
        ["/%61pi/slots", "/api/%73lots", "//api/slots", "/./api/slots", "/x/../api/slots", "/api/slots/", "/API/slots"],
        ["/api//slots", "/api/slots;x", "/api/slots?x=/livez", "/api/slots#/livez", "/livez/..%2fapi/slots"],
        [`${base}/api/slots`, `${base}/livez/../api/slots`],
      ].flat();
      for (const path of spellings) {
        const { status, body } = await gateway.ask("GET", path);
        assert.ok(status === 401 || status === 404, `${path} gave ${status} ${body.slice(0, 80)}`);
      }
      const chat = "v1/chat/completions";
      for (const path of ["/v1/%63hat/completions", `//${chat}`, `/${chat}/`, `/${chat}?x`]) {
        const json = { "content-type": "application/json" };
        const { status } = await gateway.ask("POST", path, json, '{"model":"primary"}');
        assert.ok(status === 401 || status === 404, `${path} gave ${status}`);
      }
    });
  });

  it("must be declared: a route without a scope class, or with an unknown class, stops the start", () => {
    const guard = new HostGuard([]);
    const gate = new Gate({ guard, isEnabled: true, verify: () => undefined, trustedProxies: [] });
    const app = fastify();
    guardRoutes(app, gate);
    assert.throws(() => app.get("/api/forgotten", () => "open"), /route GET \/api\/forgotten names no scope class/);
    const odd: object = { config: { scope: "everybody" } };
    assert.throws(() => app.get("/api/odd", odd, () => "open"), /route GET \/api\/odd names no scope class/);
  });
});
