import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { basePathSchema } from "../../src/api/config-values.ts";
import { envelopeOf } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { tempDir } from "../support/temp-dir.ts";

const script = "export {};\n";

/** A gateway with pages as the build lays them out. */
async function withPages(env: Readonly<Record<string, string>> = {}): Promise<TestGateway & { chatUrl: string }> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  for (const page of ["dashboard", "chat"]) {
    await mkdir(join(path, page, "assets"), { recursive: true });
    await writeFile(join(path, page, "index.html"), `<!doctype html><base href="./" /><title>${page}</title>`);
    await writeFile(join(path, page, "assets/a-1.js"), script);
    await writeFile(join(path, page, "assets/a-1.js.gz"), gzipSync(script));
    await writeFile(join(path, page, "secret.js"), "never served");
  }
  const { first } = await freePorts(1);
  const gateway = stack.use(
    await startGateway({
      slots: { primary: {} },
      env: { SVC_CHAT_PORT: String(first), ...env },
      gateway: { pages: path },
    }),
  );
  const owned = stack.move();
  return { ...gateway, chatUrl: `http://127.0.0.1:${first}`, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const titleOf = async (response: Response): Promise<string | undefined> =>
  /<title>(.*)<\/title>/.exec(await response.text())?.[1];

const ownPolicy = /^default-src 'none'; script-src 'self'; style-src 'self'(?!.*unsafe)/;

describe("pages", () => {
  it("are at / and below /ui, under a policy that runs nothing but their own files", async () => {
    await using gateway = await withPages();
    const long = `/ui/slots/${"a".repeat(400)}`;
    // Also where an address cannot be read, or names something too long, so that the page can say so.
    for (const path of ["/", "/ui", "/ui/slots/primary", "/ui/models?x=1", long, "/ui/slots/%E0%A4%A"]) {
      const response = await fetch(new URL(path, gateway.url));
      assert.equal(response.status, path.endsWith("%A") ? 400 : 200, path);
      assert.match(response.headers.get("content-security-policy") ?? "", ownPolicy);
      assert.equal(response.headers.get("cache-control"), "no-cache");
      assert.equal(response.headers.get("x-content-type-options"), "nosniff");
      assert.ok((response.headers.get("x-request-id") ?? "").length > 0);
      assert.equal(await titleOf(response), "dashboard", path);
    }
    for (const [method, path] of [
      ["GET", "/ui/assets/%E0%A4%A"],
      ["GET", "/api/slots/%E0%A4%A"],
      ["GET", `/api/slots/${"a".repeat(400)}`],
      ["POST", "/ui/slots/%E0%A4%A"],
    ] as const) {
      const response = await fetch(new URL(path, gateway.url), { method });
      const { error } = await envelopeOf(response);
      assert.deepEqual([response.status, error.code], [400, "dispatch.invalid_request"], path);
    }
  });

  it("have files that are cached for ever and compressed on request, and serve no other files", async () => {
    await using gateway = await withPages();
    for (const path of ["/ui/assets/a-1.js", "/chat/assets/a-1.js"])
      for (const [accepted, encoding] of [
        ["gzip, br", "gzip"],
        ["identity", null],
        ["gzip;q=0", null],
        ["*;q=0.5", "gzip"],
      ] as const) {
        const response = await fetch(new URL(path, gateway.url), { headers: { "accept-encoding": accepted } });
        assert.equal(response.headers.get("content-encoding"), encoding);
        assert.match(response.headers.get("content-type") ?? "", /^text\/javascript/);
        assert.match(response.headers.get("cache-control") ?? "", /immutable/);
        assert.equal(await response.text(), script);
      }
    const inAssets = ["b.js", "..%2fsecret.js", "a-1.js.gz"].map((name) => `/ui/assets/${name}`);
    for (const path of [...inAssets, "/chat/assets/", "/ui/nope.js", "/ui/slots/nope.css?x=1", "/chat/nope.js"]) {
      const response = await fetch(new URL(path, gateway.url));
      const { error } = await envelopeOf(response);
      assert.deepEqual([path, response.status, error.code], [path, 404, "system.not_found"]);
    }
  });

  it("include the chat at /chat/ with its API below it, and at / of a port of its own", async () => {
    await using gateway = await withPages();
    for (const at of [`${gateway.url}/chat/`, `${gateway.chatUrl}/`, `${gateway.chatUrl}/?a=b`])
      assert.equal(await titleOf(await fetch(at)), "chat", at);
    for (const at of [`${gateway.url}/chat`, gateway.chatUrl, `${gateway.chatUrl}/chat`])
      assert.equal((await fetch(`${at}/v1/models`)).status, 200, at);
    assert.equal(await (await fetch(`${gateway.chatUrl}/assets/a-1.js`)).text(), script);
  });

  it("work below a path of a proxy, which removes it, or keeps it and has Berth told", async () => {
    await using gateway = await withPages({ SVC_BASE_PATH: "/apps/berth/" });
    for (const origin of [gateway.url, `${gateway.url}/apps/berth`]) {
      const inSlots = ["", "/primary", "/primary/?x=/", "/%E0%A4%A"].map((path) => `/ui/slots${path}`);
      for (const path of ["/", "/ui", ...inSlots]) {
        const answer = await (await fetch(`${origin}${path}`)).text();
        const base = /<base href="(.*?)" \/>/.exec(answer)?.[1];
        assert.equal(new URL(base ?? "/none", `${origin}${path}`).href, `${origin}/`, path);
      }
      for (const from of ["", "/chat"]) {
        const redirect = await fetch(`${origin}${from}`, { redirect: "manual" });
        if (redirect.status === 200) continue;
        const to = new URL(redirect.headers.get("location") ?? "", `${origin}${from}`).href;
        assert.deepEqual([redirect.status, to], [308, `${origin}${from}/`]);
      }
      for (const path of ["/v1/models", "/chat/v1/models", "/api/slots", "/ui/assets/a-1.js"])
        assert.equal((await fetch(`${origin}${path}`)).status, 200, path);
    }
    assert.equal(await titleOf(await fetch(`${gateway.chatUrl}/apps/berth/`)), "chat");
    assert.equal((await fetch(`${gateway.url}/apps/berthing/v1/models`)).status, 404);
    const told = `${gateway.url}/apps/berth`;
    const urls = await (await fetch(`${gateway.url}/api/config/urls`)).json();
    assert.deepEqual(urls, { api: `${told}/v1`, dashboard: `${told}/`, chat: `${told}/chat/` });
    assert.match(await (await fetch(`${told}/api/openapi.json`)).text(), /"servers":\[\{"url":"\/apps\/berth"\}\]/);
  });

  it("are shown without a token, which their API requires, however its path is spelt", async () => {
    await using gateway = await withPages({ SVC_AUTH_ENABLED: "1", SVC_BASE_PATH: "/berth" });
    const origins = [gateway.url, gateway.chatUrl];
    for (const [path, status] of [
      ["/", 200],
      ["/api/slots", 401],
      ["/chat/api/slots", 401],
      ["/berth/", 200],
      ["/berth/livez", 200],
      ["/berth/api/slots", 401],
      ["/berth/api/slots/", 401],
      ["/berth/%61pi/slots", 401],
      ["/berth/api/nothing", 401],
      ["/berth/v1/nothing", 401],
      ["/berth/chat/api/slots", 401],
      ["/berth/chat/v1/nothing", 401],
      ["/%62erth/api/slots", 404],
      ["/berth/berth/api/slots", 404],
      ["/berth//api/slots", 404],
      ["/livez/berth/api/slots", 404],
    ] as const)
      for (const origin of origins) assert.equal((await fetch(origin + path)).status, status, origin + path);
    const chat = { method: "POST", body: JSON.stringify({ model: "primary", messages: [] }) };
    for (const path of ["/berth/v1/chat/completions", "/berth/chat/v1/chat/completions"])
      assert.equal((await fetch(`${gateway.url}${path}`, chat)).status, 401, path);
  });

  it("and every other route have a first segment that SVC_BASE_PATH must not begin with", async () => {
    const { first: port } = await freePorts(1);
    await using gateway = await withPages({ SVC_ENGINE_PAGES: "primary", SVC_ENGINE_PAGES_PORT: String(port) });
    const firsts = new Set(["assets", ...gateway.running.routes.map(({ path }) => path.split("/")[1] ?? "")]);
    firsts.delete("");
    for (const first of firsts)
      assert.equal(basePathSchema.safeParse(`/${first}`).success, false, `${first} is missing in ownPath`);
  });

  it("say how to build them where they are not built, and the log says that their port is taken", async () => {
    await using taken = await withPages();
    await using other = await startGateway({
      slots: {},
      env: { SVC_CHAT_PORT: new URL(taken.chatUrl).port },
      gateway: { pages: "/nonexistent" },
    });
    const response = await fetch(other.url);
    assert.equal(response.status, 404);
    assert.match((await envelopeOf(response)).error.message, /make setup/);
    assert.match(other.log(), /EADDRINUSE.*SVC_CHAT_PORT/);
  });
});
