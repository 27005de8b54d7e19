import assert from "node:assert/strict";
import { request } from "node:https";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { startPageEngine, type PageEngineDouble } from "../doubles/page-engine.ts";
import type { Answer } from "../gateway/auth/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { freePorts } from "../support/ports.ts";
import { startNginx, type RunningNginx } from "./nginx-site.ts";
import { askSecurely, basic, startEdge, user, type Edge } from "./site.ts";

const manifests = ["berth.conf", "berth-engine-pages.conf"].map((name) =>
  fileURLToPath(new URL(`../../manifests/nginx/${name}`, import.meta.url)),
);
const bearer = "engine-secret";

/** Engines' own pages at a port of HTTPS of their own, through a real Caddy and a real nginx. */
describe("an engine's own page behind", () => {
  let engine: PageEngineDouble;
  let edge: Edge;
  let nginx: RunningNginx;
  let caddyPort = 0;
  const stack = new AsyncDisposableStack();
  before(async () => {
    engine = stack.use(await startPageEngine());
    caddyPort = await freePort();
    const { first } = await freePorts(1);
    edge = stack.use(
      await startEdge({
        env: { SVC_ENGINE_PAGES: "own", SVC_ENGINE_PAGES_PORT: String(first) },
        slots: { own: { port: engine.port, bearerList: [{ role: "main", ordinal: 0, bearer }] } },
        args: ["--engine-pages-port", String(caddyPort)],
      }),
    );
    nginx = stack.use(await startNginx(edge, manifests));
  });
  after(async () => await stack.disposeAsync());

  for (const name of ["Caddy", "nginx"])
    describe(name, () => {
      const ports = (): { readonly main: number; readonly pages: number } =>
        name === "Caddy"
          ? { main: edge.httpsPort, pages: caddyPort }
          : { main: nginx.httpsPort, pages: nginx.enginePagesPort };
      const ask = async (path: string, headers: Record<string, string> = {}): Promise<Answer> =>
        await askSecurely(ports().pages, edge.root, path, headers, {});
      const withToken = async (scope: "admin" | "all"): Promise<Record<string, string>> => ({
        authorization: `Bearer ${await edge.gateway.token(scope)}`,
      });

      it("is at the address to which the dashboard links", async () => {
        const { main, pages } = ports();
        const { status, headers } = await askSecurely(main, edge.root, "/upstream/own/?a=b", basic, {});
        assert.deepEqual([status, headers["location"]], [307, `https://svc.local:${pages}/upstream/own/?a=b`]);
      });

      it("is for people with the password and for administrators' tokens", async () => {
        const stranger = await ask("/upstream/own/");
        assert.equal(stranger.status, 401);
        assert.match(String(stranger.headers["www-authenticate"]), /^Basic /);
        assert.equal((await ask("/upstream/own/", { "x-forwarded-email": user })).status, 401);
        assert.match((await ask("/upstream/own/", basic)).body, /An engine's page/);
        assert.match((await ask("/upstream/own/", await withToken("admin"))).body, /An engine's page/);
        assert.equal((await ask("/upstream/own/", await withToken("all"))).status, 403);
        assert.equal((await ask("/api/slots", basic)).status, 404);
        for (const { headers } of engine.calls) {
          assert.equal(headers.authorization, `Bearer ${bearer}`);
          assert.equal(headers["x-forwarded-email"], undefined);
        }
      });

      it("has another origin than the dashboard", async () => {
        const { main, pages } = ports();
        assert.equal((await ask("/upstream/own/", { ...basic, origin: `https://svc.local:${pages}` })).status, 200);
        assert.equal((await ask("/upstream/own/", { ...basic, origin: `https://svc.local:${main}` })).status, 403);
        const url = "/api/slots/own/unload";
        const foreign = { ...basic, origin: `https://svc.local:${pages}`, "content-type": "application/json" };
        const refused = await askSecurely(main, edge.root, url, foreign, { method: "POST", body: "{}" });
        assert.equal(refused.status, 403);
      });

      it("opens its WebSockets", async () => {
        const { pages } = ports();
        const status = await new Promise<number | undefined>((resolve, reject) => {
          const asked = request({
            host: "127.0.0.1",
            port: pages,
            path: "/upstream/own/ws",
            servername: "svc.local",
            ca: edge.root,
            agent: false,
            headers: {
              ...basic,
              host: `svc.local:${pages}`,
              connection: "Upgrade",
              upgrade: "websocket",
              "sec-websocket-version": "13",
              "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
              origin: `https://svc.local:${pages}`,
            },
          });
          asked.once("upgrade", (answer, socket) => {
            socket.destroy();
            resolve(answer.statusCode);
          });
          asked.once("response", (answer) => {
            answer.resume();
            resolve(answer.statusCode);
          });
          asked.once("error", reject);
          asked.end();
        });
        assert.equal(status, 101);
      });
    });
});
