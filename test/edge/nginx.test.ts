import assert from "node:assert/strict";
import { get } from "node:http";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { publicPaths } from "../../src/api/scopes.ts";
import { codeOf, type Answer } from "../gateway/auth/gateway.ts";
import { berthProcess } from "../support/command.ts";
import { chunk } from "../support/scripted-engine.ts";
import { startNginx, type RunningNginx } from "./nginx-site.ts";
import { askSecurely, basic, password, startEdge, user, type Edge } from "./site.ts";

const manifest = fileURLToPath(new URL("../../manifests/nginx/berth.conf", import.meta.url));
const json = { "content-type": "application/json" };

/** `manifests/nginx/berth.conf` with its blanks filled in, in a real nginx, with the certificate that Caddy made. */
describe("nginx in front of the API", () => {
  let edge: Edge;
  let nginx: RunningNginx;
  let httpPort = 0;
  let httpsPort = 0;
  before(async () => {
    edge = await startEdge();
    nginx = await startNginx(edge, [manifest]);
    ({ httpPort, httpsPort } = nginx);
  });
  after(async () => {
    await nginx[Symbol.asyncDispose]();
    await edge[Symbol.asyncDispose]();
  });
  const ask = (
    path: string,
    headers: Record<string, string> = {},
    sent: { method?: string; body?: string } = {},
  ): Promise<Answer> => askSecurely(httpsPort, edge.root, path, headers, sent);
  const bearer = async (): Promise<Record<string, string>> => ({
    authorization: `Bearer ${await edge.gateway.token("all")}`,
  });

  it("is in the URLs that Berth reports for clients of the proxy", async () => {
    const origin = `https://svc.local:${httpsPort}`;
    const { body } = await ask("/api/config/urls");
    assert.deepEqual(JSON.parse(body), { api: `${origin}/v1`, dashboard: `${origin}/`, chat: `${origin}/chat/` });
  });

  it("redirects port 80", async () => {
    const location = await new Promise<string | undefined>((resolve, reject) => {
      const options = { host: "127.0.0.1", port: httpPort, path: "/x?y=1", headers: { host: "svc.local" } };
      get(options, (response) => resolve(response.headers.location)).once("error", reject);
    });
    assert.equal(location, "https://svc.local/x?y=1");
  });

  it("asks people for a password and programs for a token", async () => {
    const page = await ask("/");
    assert.deepEqual([page.status, page.headers["www-authenticate"]], [401, 'Basic realm="Berth"']);
    assert.equal(codeOf(await ask("/v1/models/none")), "auth.required");
    for (const path of publicPaths) assert.notEqual((await ask(path)).status, 401, path);
  });

  it("names the user who logged in, and no other user", async () => {
    const me = async (headers: Record<string, string>): Promise<unknown> =>
      JSON.parse((await ask("/api/auth/me", headers)).body);
    assert.deepEqual(await me({ ...basic, "x-forwarded-email": "eve" }), {
      identity: user,
      scope: "admin",
      source: "proxy",
    });
    assert.deepEqual(await me({ ...(await bearer()), "x-forwarded-email": "eve" }), {
      identity: "a all",
      scope: "all",
      source: "token",
    });
    const wrong = { authorization: `Basic ${Buffer.from(`${user}:wrong`).toString("base64")}` };
    assert.equal((await ask("/api/auth/me", wrong)).status, 401);
    for (const path of [
      "/v1/models/none",
      "/v1/../api/slots",
      "/v1/%2e%2e/api/slots",
      "//api/slots",
      "/api/status/../slots",
    ]) {
      for (const headers of [wrong, { "x-forwarded-email": "eve" }]) {
        const { status } = await ask(path, headers);
        assert.ok(status === 401 || status === 404, `${path} gave ${status}`);
      }
    }
    assert.equal(codeOf(await ask("/v1/models/none", basic)), "auth.invalid", "/v1 knows no passwords, right or wrong");
  });

  it("serves the chat page with the user's name, and keeps his password to itself", async () => {
    assert.equal((await ask("/chat/", await bearer())).status, 401);
    assert.equal((await ask("/chat/room", { ...basic, "x-forwarded-email": "eve" })).body, "the chat page");
    const seen = edge.chatSeen.at(-1);
    assert.deepEqual(
      [seen?.path, seen?.headers["x-forwarded-email"], seen?.headers.authorization],
      ["/room", user, undefined],
    );
  });

  it("relays a stream event by event", async () => {
    const gate = Promise.withResolvers<void>();
    edge.engine.answer(async (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(chunk({ role: "assistant", content: "early" }));
      await gate.promise;
      response.end("data: [DONE]\n\n");
    });
    const body = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }], stream: true });
    const sent = { method: "POST", body };
    const answer = await askSecurely(
      httpsPort,
      edge.root,
      "/v1/chat/completions",
      { ...json, ...(await bearer()) },
      sent,
      (bytes) => {
        if (bytes.includes("early")) gate.resolve();
      },
    );
    assert.match(answer.body, /data: \[DONE\]\n\n$/);
  });

  it("passes `berth proxy check`", async () => {
    const { stdout, code } = await berthProcess(
      [
        "proxy",
        "check",
        `https://svc.local:${httpsPort}`,
        `--address=127.0.0.1:${httpsPort}`,
        `--http-port=${httpPort}`,
        `--root=${join(edge.directory, "data/caddy/pki/authorities/local/root.crt")}`,
      ],
      { ...edge.env, SVC_ADMIN_PASSWORD: password },
    );
    assert.deepEqual([code, stdout.match(/^failed.*/gm)], [0, null]);
  });
});
