import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { get } from "node:http";
import { json } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../../../src/lib/record.ts";
import { OpenUpstreams } from "../../../src/store/state/open-upstreams.ts";
import { modelRecord } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { site, type Json, type Site } from "./fixture.ts";

describe("health", () => {
  const check = async (at: Site, name: string): Promise<Json> => {
    const { checks } = await at.got("/api/health/system");
    const found = isRecord(checks) ? checks[name] : undefined;
    return isRecord(found) ? found : {};
  };

  it("is degraded while the operator keeps ending, and once it has died", async () => {
    await using at = await site({ slots: { primary: { port: 1 } } });
    const lastAt = new Date().toISOString();
    for (const [sketch, heart] of [
      [{ unexpectedEnds: { count: 2, lastAt } }, "ok,2"],
      [{ unexpectedEnds: { count: 3, lastAt } }, "degraded,3"],
      [{ heartbeat: lastAt }, "ok,0"],
      [{ heartbeat: new Date(Date.now() - 60_000).toISOString() }, "degraded,0"],
    ] as const) {
      await at.publishOperator(sketch);
      await until(`its heart is ${heart}`, async () => {
        const { status, unexpected_ends: ends } = await check(at, "operator_heartbeat");
        return [status, ends ?? 0].join() === heart;
      });
    }
  });

  it("reports on the store, on slots and on the disk", async () => {
    await using at = await site({ slots: { primary: { state: "error" } } });
    await at.publishOperator({ problems: [{ reason: "SourceEmpty", message: "nothing there" }] });
    await until("the problem is seen", async () => (await check(at, "store"))["status"] === "degraded");
    assert.equal((await at.got("/api/health/system"))["status"], "degraded");
    assert.deepEqual(await check(at, "store"), { status: "degraded", reasons: ["SourceEmpty"] });
    assert.deepEqual(await check(at, "slots"), { status: "degraded", failed: ["primary"] });
    assert.ok(Number((await check(at, "disk"))["free_bytes"]) > 0);
    // What is not well is told there too, and takes nothing from being ready.
    const ready = await fetch(`${at.url}/readyz?verbose`);
    assert.equal(ready.status, 200);
    assert.equal(
      (await ready.text()).replace(/^\[.\]disk .*$/m, "[?]disk"),
      "[+]serving ok\n" +
        "[-]store degraded (requests are served all the same)\n" +
        "[+]operator_heartbeat ok\n" +
        "[?]disk\n" +
        "[-]slots degraded (requests are served all the same)\n" +
        "[+]conditions ok\n",
    );
    assert.equal(await (await fetch(`${at.url}/readyz`)).text(), "ok\n");
    // The gateway may write just then, and make the directory anew.
    await until("its directory is gone", async () => {
      await rm(at.stateDir, { recursive: true, force: true, maxRetries: 5 });
      return isDeepStrictEqual(await check(at, "disk"), { status: "degraded", free_bytes: null });
    });
  });
});

describe("an installation", () => {
  let at: Site;
  before(async () => {
    const projector = { ...modelRecord("mmproj"), state: "invalid", reason: "NotAModel" } as const;
    at = await site({
      slots: { primary: { port: 1 } },
      registry: { models: [projector] },
      env: { HF_TOKEN: "hf_canary" },
      gateway: { configOrigins: { port: "environment" } },
    });
  });
  after(() => at[Symbol.asyncDispose]());

  const urls = async ({ running: { port } }: Site, headers: Record<string, string>): Promise<unknown> =>
    await new Promise((resolve, reject) => {
      const options = { host: "127.0.0.1", port, path: "/api/config/urls", headers, agent: false };
      get(options, (response) => void json(response).then(resolve, reject)).once("error", reject);
    });

  it("has a first run, which ends once", async () => {
    const state = { first_run: true, has_models: false, has_ready_slot: true };
    assert.deepEqual(await at.got("/api/install/state"), state);
    const done = { ...state, first_run: false };
    for (let round = 0; round < 2; round += 1) assert.deepEqual(await at.got("/api/install/complete", "POST"), done);
    assert.deepEqual(await at.got("/api/install/state"), done);
  });

  it("reports URLs with the address that the caller used, with HTTPS where a trusted proxy says so", async () => {
    const host = `localhost:${at.running.port}`;
    const all = (base: string) => ({ api: `${base}/v1`, dashboard: `${base}/`, chat: `${base}/chat/` });
    for (const [headers, base] of [
      [{ host }, `http://${host}`],
      [{ host: "svc.local", "x-forwarded-proto": "https" }, "https://svc.local"],
      [{ host: "svc.local", "x-forwarded-proto": "http" }, "http://svc.local"],
      [{ host: "svc.local", "x-forwarded-proto": "javascript" }, "http://svc.local"],
    ] as const)
      assert.deepEqual(await urls(at, headers), all(base));
    const refused = JSON.stringify(await urls(at, { host: "evil.example" }));
    assert.ok(!refused.includes("/v1"), "no address is made of a name that is not ours");
    await using untrusting = await site({ env: { SVC_TRUSTED_PROXIES: "203.0.113.7" } });
    const headers = { host: "svc.local", "x-forwarded-proto": "https" };
    assert.deepEqual(await urls(untrusting, headers), all("http://svc.local"));
  });

  it("shows its configuration with the origin of each value, secrets masked", async () => {
    const shown = await at.got("/api/config");
    assert.doesNotMatch(JSON.stringify(shown), /hf_canary/);
    assert.partialDeepStrictEqual(shown, {
      read_only: false,
      settings: {
        port: { value: 0, origin: "environment", environment: "SVC_PORT", toml: "port" },
        hold_seconds: { origin: "default" },
      },
    });
    const settings = isRecord(shown["settings"]) ? shown["settings"] : {};
    for (const [key, setting] of Object.entries(settings))
      assert.ok(isRecord(setting) && setting["toml"] === key, "keys are snake_case, as in berth.toml");
    assert.match(JSON.stringify(settings["slot_ports"]), /"value":"\d+-\d+"/);
  });

  const spec = (baseUrl: string, more: object = {}): object => ({ baseUrl, models: [{ ref: "a" }], ...more });

  it("writes, lists and removes providers; a key only with authentication on", async () => {
    const { href } = new URL("https://x.example/v1");
    assert.equal((await at.send("PUT", "/api/upstreams/acme", spec(href))).status, 201);
    assert.equal((await at.send("PUT", "/api/upstreams/acme", spec(href, { retries: 2 }))).status, 202);
    const text = 'base_url = "https://x.example/v1"\nretries = 2\n\n[[models]]\nref = "a"\n';
    assert.equal(await at.written("upstreams/acme.toml"), text);
    const secret = spec(href, { auth: { type: "bearer", valueFrom: { env: "HF_TOKEN" } } });
    assert.equal((await at.refused("PUT", "/api/upstreams/acme", secret)).is, "403 auth.forbidden");
    assert.deepEqual(await at.got("/api/upstreams"), { object: "list", data: [] });
    assert.equal((await at.send("DELETE", "/api/upstreams/acme")).status, 202);
    assert.equal((await at.refused("DELETE", "/api/upstreams/acme")).is, "404 system.not_found");
    await assert.rejects(at.written("upstreams/acme.toml"), { code: "ENOENT" });
  });

  it("takes no provider of this machine over the API without authentication, unless a manifest has it", async () => {
    const inner = ["http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://169.254.169.254/v1", "http://[::1]:1/v1"];
    for (const baseUrl of inner) {
      const { is, details } = await at.refused("PUT", "/api/upstreams/inner", spec(baseUrl));
      assert.equal(is, "403 auth.forbidden", baseUrl);
      assert.deepEqual(details, { path: ["baseUrl"], file: "upstreams/inner.toml" });
    }
    const [baseUrl = ""] = inner;
    await at.declare("upstreams/inner.toml", `base_url = "${baseUrl}"\n[[models]]\nref = "a"\n`);
    assert.equal((await at.send("PUT", "/api/upstreams/inner", spec(baseUrl, { retries: 2 }))).status, 202);
    const open = new OpenUpstreams(at.stateDir);
    assert.equal(open.has("inner", baseUrl), false, "a person wrote it");
    assert.equal((await at.send("PUT", "/api/upstreams/other", spec("https://x.example/v1"))).status, 201);
    assert.equal(open.has("other", "https://x.example/v1"), true, "anybody wrote it");
    assert.equal(open.has("other", "https://y.example/v1"), false);
    assert.equal((await at.send("DELETE", "/api/upstreams/inner")).status, 202);
    assert.equal((await at.refused("PUT", "/api/upstreams/inner", spec(baseUrl))).is, "403 auth.forbidden", "deleted");
  });
});
