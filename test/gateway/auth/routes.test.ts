import assert from "node:assert/strict";
import { rename, rm, symlink } from "node:fs/promises";
import { describe, it } from "node:test";
import {
  authStatusSchema,
  createdTokenSchema,
  loginSchema,
  meSchema,
  tokenListSchema,
} from "../../../src/api/token.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { codeOf, startGateway } from "./gateway.ts";

const json = { "content-type": "application/json" };

describe("/api/auth", { concurrency: true }, () => {
  it("makes, lists and revokes tokens; a revoked one is refused at its next request", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" });
    const admin = { authorization: `Bearer ${await gateway.token("admin")}` };
    const wanted = JSON.stringify({ label: "ci", scope: "read-only" });
    const answer = await gateway.ask("POST", "/api/auth/tokens", { ...json, ...admin }, wanted);
    assert.equal(answer.status, 201);
    assert.equal(answer.headers["cache-control"], "no-store");
    const created = createdTokenSchema.parse(JSON.parse(answer.body));
    assert.equal(created.is_confirmed, true, "it counts at once");
    const own = { authorization: `Bearer ${created.token}` };
    const me = await gateway.ask("GET", "/api/auth/me", own);
    assert.deepEqual(meSchema.parse(JSON.parse(me.body)), { identity: "ci", scope: "read-only", source: "token" });
    const { data } = tokenListSchema.parse(JSON.parse((await gateway.ask("GET", "/api/auth/tokens", admin)).body));
    assert.deepEqual(
      data.map(({ label, scope }) => ({ label, scope })),
      [
        { label: "a admin", scope: "admin" },
        { label: "ci", scope: "read-only" },
      ],
    );
    assert.notEqual(data[1]?.last_used_at, null);
    const revoked = await gateway.ask("DELETE", `/api/auth/tokens/${created.id}`, admin);
    assert.deepEqual([revoked.status, revoked.body], [204, ""]);
    const [adminId] = data.map(({ id }) => id);
    assert.match(gateway.log(), new RegExp(`token ${adminId} created token ${created.id} of scope read-only`));
    assert.match(gateway.log(), new RegExp(`token ${adminId} revoked token ${created.id}`));
    assert.equal(codeOf(await gateway.ask("GET", "/api/auth/me", own)), "auth.invalid");
    assert.equal(codeOf(await gateway.ask("DELETE", `/api/auth/tokens/${created.id}`, admin)), "system.not_found");
    assert.equal(codeOf(await gateway.ask("DELETE", "/api/auth/tokens/..%2f..%2fx", admin)), "system.not_found");
    const proxied = { "x-forwarded-email": "ada@example.org" };
    const ada = JSON.parse((await gateway.ask("GET", "/api/auth/me", proxied)).body);
    assert.deepEqual(ada, { identity: "ada@example.org", scope: "admin", source: "proxy" });
    assert.equal((await gateway.ask("POST", "/api/auth/tokens", { ...json, ...proxied }, wanted)).status, 201);
  });

  it("reports to every caller which checks are on", async () => {
    for (const [env, modes, isTrusted, login] of [
      [{}, ["none"], false, /nobody needs to log in/],
      [{ SVC_AUTH_ENABLED: "1" }, ["token", "proxy"], true, /edge proxy/],
      [{ SVC_AUTH_ENABLED: "1", SVC_TRUSTED_PROXIES: "203.0.113.0/24" }, ["token", "proxy"], false, /./],
    ] as const) {
      await using gateway = await startGateway(env);
      const told = async (path: string): Promise<unknown> => JSON.parse((await gateway.ask("GET", path)).body);
      const enabled = modes.length > 1;
      const status = authStatusSchema.parse(await told("/api/auth/status"));
      assert.deepEqual(status, { enabled, modes, proxy_trusted: isTrusted });
      assert.match(loginSchema.parse(await told("/api/auth/login")).message, login);
      if (enabled) continue;
      assert.deepEqual(await told("/api/auth/me"), { identity: "anonymous", scope: "admin", source: "none" });
    }
  });

  it("counts refusals", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" });
    const refusals = (code: string): Promise<number | undefined> =>
      gateway.metric(`berth_auth_refusals_total{code="${code}"}`);
    assert.equal(await refusals("auth.throttled"), 0);
    const wrong = { authorization: `Bearer svc_nobody22.${"A".repeat(43)}` };
    for (let turn = 0; turn < 21; turn++) await gateway.ask("POST", "/v1/chat/completions", wrong, "{}");
    await gateway.ask("GET", "/api/slots");
    await gateway.ask("GET", "/api/slots", { authorization: `Bearer ${await gateway.token("v1-only")}` });
    const codes = ["auth.invalid", "auth.throttled", "auth.required", "auth.forbidden"];
    assert.deepEqual(await Promise.all(codes.map(refusals)), [20, 1, 1, 1]);
    const line = 'berth_requests_total{route="/v1/chat/completions",slot="none",code="401"}';
    assert.equal(await gateway.metric(line), 20);
    assert.match(gateway.log(), /127\.0\.0\.1 failed to authenticate too often and gets 429 for a minute/);
  });

  it("refuses every caller where the store cannot be read, without the reason", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" });
    const own = { authorization: `Bearer ${await gateway.token("admin")}`, ...json };
    await rename(gateway.tokens.path, `${gateway.tokens.path}.aside`);
    await symlink(gateway.tokens.path, gateway.tokens.path);
    for (const [method, path] of [
      ["GET", "/api/slots"],
      ["POST", "/v1/chat/completions"],
    ] as const) {
      const answer = await gateway.ask(method, path, own, method === "POST" ? '{"model":"primary"}' : undefined);
      assert.deepEqual([answer.status, codeOf(answer)], [500, "system.internal"], path);
      assert.equal(/ELOOP|tokens/.test(answer.body), false, answer.body);
    }
    assert.match(gateway.log(), /ELOOP/);
    await rm(gateway.tokens.path);
    await rename(`${gateway.tokens.path}.aside`, gateway.tokens.path);
    assert.equal((await gateway.ask("GET", "/api/slots", own)).status, 200);
  });
});

it("a request to unload a slot names its caller, for the reason that the operator gives", async () => {
  const ready = { primary: { state: "ready", port: 1 } } as const;
  await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" }, ready);
  const admin = { authorization: `Bearer ${await gateway.token("admin")}` };
  assert.equal((await gateway.ask("POST", "/api/slots/primary/unload", admin)).status, 202);
  await using sets = await sharedSets(gateway.stateDir);
  assert.deepEqual(
    sets.requests.list("primary").map(({ kind, requestedBy }) => [kind, requestedBy]),
    [["unload", "a admin"]],
  );
});
