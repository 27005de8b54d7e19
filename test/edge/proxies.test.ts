import assert from "node:assert/strict";
import { get } from "node:http";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { publicPaths, type tokenScopes } from "../../src/api/scopes.ts";
import { codeOf, type Answer } from "../gateway/auth/gateway.ts";
import { berthProcess } from "../support/command.ts";
import { chunk } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { startNginx, type RunningNginx } from "./nginx-site.ts";
import { askSecurely, basic, password, startEdge, user, type Edge } from "./site.ts";

const manifest = fileURLToPath(new URL("../../manifests/nginx/berth.conf", import.meta.url));
const json = { "content-type": "application/json" };
const chat = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }] });
const wrong = `svc_nobody22.${"A".repeat(43)}`;
const asUser = { identity: user, scope: "admin", source: "proxy" };

let edge: Edge;
let nginx: RunningNginx;
before(async () => {
  edge = await startEdge();
  nginx = await startNginx(edge, [manifest]);
});
after(async () => {
  await nginx[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});
const bearer = async (scope: (typeof tokenScopes)[number] = "all"): Promise<Record<string, string>> => ({
  authorization: `Bearer ${await edge.gateway.token(scope)}`,
});
const passwordOf = (pair: string): Record<string, string> => ({
  authorization: `Basic ${Buffer.from(pair).toString("base64")}`,
});

/** Both proxies do as the specification's section on authentication asks: Caddy by the file that Berth writes, nginx by the manifest. */
for (const name of ["Caddy", "nginx"])
  describe(`behind ${name}`, () => {
    const ports = (): { readonly httpPort: number; readonly httpsPort: number } => (name === "Caddy" ? edge : nginx);
    const ask = (
      path: string,
      headers: Record<string, string> = {},
      sent: { method?: string; body?: string } = {},
      onBytes?: (text: string) => void,
    ): Promise<Answer> => askSecurely(ports().httpsPort, edge.root, path, headers, sent, onBytes);
    const me = async (headers: Record<string, string>): Promise<unknown> =>
      JSON.parse((await ask("/api/auth/me", headers)).body);

    it("port 80 leads to HTTPS, and Berth tells clients the proxy's URLs", async () => {
      const { httpPort, httpsPort } = ports();
      const location = await new Promise<string | undefined>((resolve, reject) => {
        const options = { host: "127.0.0.1", port: httpPort, path: "/v1?x=1", headers: { host: "svc.local" } };
        get(options, (response) => resolve(response.headers.location)).once("error", reject);
      });
      assert.equal(location, "https://svc.local/v1?x=1");
      const origin = `https://svc.local:${httpsPort}`;
      const urls = { api: `${origin}/v1`, dashboard: `${origin}/`, chat: `${origin}/chat/` };
      assert.deepEqual(JSON.parse((await ask("/api/config/urls")).body), urls);
    });

    it("people are asked for a password, programs for a token, and nobody at the public routes", async () => {
      const page = await ask("/");
      assert.deepEqual([page.status, page.headers["www-authenticate"]], [401, 'Basic realm="Berth"']);
      const api = await ask("/v1/chat/completions", json, { method: "POST", body: chat });
      assert.deepEqual([api.status, codeOf(api)], [401, "auth.required"]);
      assert.equal(codeOf(await ask("/v1/models/none", basic)), "auth.invalid", "/v1 knows no password");
      for (const path of publicPaths) {
        const { status, headers } = await ask(path);
        assert.ok(status !== 401 && status !== 403, `${path} gave ${status}`);
        assert.equal(headers["www-authenticate"], undefined, path);
      }
    });

    it("the user who logged in is named, and no other one, whatever the client says in any spelling", async () => {
      const pairs = [`${user}:wrong`, `${user}:`, `${user}:${password}x`, `eve:${password}`, `:${password}`];
      for (const pair of pairs) assert.equal((await ask("/api/auth/me", passwordOf(pair))).status, 401, pair);
      for (const header of ["x-forwarded-email", "X-Forwarded-Email", "X-FORWARDED-EMAIL"]) {
        assert.deepEqual(await me({ ...basic, [header]: "eve" }), asUser);
        const token = await me({ ...(await bearer()), [header]: "eve" });
        assert.deepEqual(token, { identity: "a all", scope: "all", source: "token" });
        assert.equal((await ask("/api/slots", { [header]: "eve" })).status, 401, header);
        assert.equal(codeOf(await ask("/v1/models/none", { [header]: "eve" })), "auth.required");
      }
    });

    it("no other spelling of a path leads past it", async () => {
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
        const answer = await ask(path, { "x-forwarded-email": "eve" });
        assert.ok([400, 401, 404, 308].includes(answer.status), `${path} gave ${answer.status}`);
        assert.equal(answer.body.includes('"data"'), false, path);
      }
      assert.equal((await ask("/v1/../api/slots", passwordOf(`${user}:wrong`))).status, 401);
    });

    it("the chat page is served below /chat/ with the user's name, and never his password", async () => {
      const before = edge.chatSeen.length;
      const strangers = [{}, { "x-forwarded-email": "eve" }, await bearer("admin")];
      for (const headers of strangers) assert.notEqual((await ask("/chat/", headers)).status, 200);
      assert.equal(edge.chatSeen.length, before);
      assert.equal((await ask("/chat/room?x=1", { ...basic, "x-forwarded-email": "eve" })).body, "the chat page");
      const seen = edge.chatSeen.at(-1);
      assert.deepEqual(
        [seen?.path, seen?.headers["x-forwarded-email"], seen?.headers.authorization],
        ["/room?x=1", user, undefined],
      );
    });

    it("a stream comes event by event", async () => {
      const gate = Promise.withResolvers<void>();
      edge.engine.answer(async (response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(chunk({ role: "assistant", content: "early" }));
        await gate.promise;
        response.end("data: [DONE]\n\n");
      });
      const own = { ...json, ...(await bearer("v1-only")) };
      const sent = { method: "POST", body: chat.replace("{", '{"stream":true,') };
      // The end is written only once the beginning has come through: a proxy that waits would wait for ever.
      const answer = await ask("/v1/chat/completions", own, sent, (bytes) => {
        if (bytes.includes("early")) gate.resolve();
      });
      assert.match(answer.body, /early[\s\S]*data: \[DONE\]\n\n$/);
    });

    it("`berth proxy check` goes the whole round, and leaves no token behind", async () => {
      const { httpPort, httpsPort } = ports();
      const rootFile = join(edge.directory, `saved-${name}.crt`);
      const roots = join(edge.directory, "data/caddy/pki/authorities/local/root.crt");
      const trusted =
        name === "Caddy" ? [`--caddy-admin=${edge.caddyAdmin}`, `--save-root=${rootFile}`] : [`--root=${roots}`];
      const address = [`https://svc.local:${httpsPort}`, `--address=127.0.0.1:${httpsPort}`, `--http-port=${httpPort}`];
      const env = { ...edge.env, SVC_ADMIN_PASSWORD: password };
      const { code, stdout, stderr } = await berthProcess(["proxy", "check", ...address, ...trusted], env);
      assert.deepEqual([code, stderr], [0, ""], stdout);
      const labels = (await edge.gateway.tokens.list()).map(({ label }) => label);
      assert.equal(labels.includes("proxy check"), false);
      if (name !== "Caddy") return;
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
      assert.equal((await readFile(rootFile, "utf8")).trim(), edge.root.trim());
    });
  });

describe("the file that `berth proxy render` writes", () => {
  it("keeps the password nowhere", async () => {
    for (const root of [edge.directory, edge.gateway.stateDir]) {
      // Both programs go on writing: a file that one of them renames between the list and its reading is in the next list.
      const files = await until("each file of a list is read", async () => {
        const entries = await readdir(root, { recursive: true, withFileTypes: true });
        const plain = entries.filter((entry) => entry.isFile());
        return await Promise.all(
          plain.map(async ({ name, parentPath }) => [name, await readFile(join(parentPath, name), "latin1")] as const),
        );
      });
      for (const [name, text] of files)
        for (const secret of [password, basic.authorization.slice(6)]) assert.equal(text.includes(secret), false, name);
    }
    assert.equal(edge.proxyLog().includes(password) || edge.gateway.log().includes(password), false);
    const admin = join(edge.gateway.stateDir, "auth/admin.json");
    assert.equal((await stat(admin)).mode & 0o777, 0o600);
    assert.match(await readFile(admin, "utf8"), /"bcrypt":"\$2b\$12\$/);
  });

  it("gives its user the rights of an admin, to pages of its own origin alone", async () => {
    const body = JSON.stringify({ label: "from the browser", scope: "v1-only" });
    const own = { ...basic, ...json, origin: `https://svc.local:${edge.httpsPort}`, "sec-fetch-site": "same-origin" };
    assert.equal((await edge.ask("/api/auth/tokens", own, { method: "POST", body })).status, 201);
    const foreign = { ...own, origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    assert.equal(codeOf(await edge.ask("/api/auth/tokens", foreign, { method: "POST", body })), "auth.forbidden");
  });

  it("redirects /chat to /chat/, and shows a certificate that only its own authority vouches for", async () => {
    const { status, headers } = await edge.ask("/chat", basic);
    assert.deepEqual([status, headers["location"]], [308, "/chat/"]);
    await assert.rejects(askSecurely(edge.httpsPort, undefined, "/v1/models", {}, {}), {
      code: /UNABLE_TO_GET_ISSUER_CERT|SELF_SIGNED_CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE/,
    });
  });

  it("has the address throttled that the proxy reports, and not the proxy", async () => {
    const limited = await until("the failures count", async () => {
      const answer = await edge.ask("/v1/models/none", { authorization: `Bearer ${wrong}` });
      return answer.status === 429 && answer;
    });
    assert.equal(codeOf(limited), "auth.throttled");
    assert.ok(Number(limited.headers["retry-after"]) >= 1);
    assert.equal((await edge.ask("/api/slots", await bearer())).status, 200, "a valid token is never delayed");
  });

  it("is missed by `berth proxy check` where no proxy is, with the cause", async () => {
    const address = ["--address", `127.0.0.1:${edge.gateway.port}`, "--caddy-admin", edge.caddyAdmin];
    const { code, stdout } = await berthProcess(["proxy", "check", ...address], edge.env);
    assert.equal(code, 1);
    assert.match(stdout, /^failed {3}certificate: /m);
  });
});
