import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { probePaths, publicPaths } from "../../../src/api/scopes.ts";
import { reachLines } from "../../../src/gateway/auth/reach.ts";
import { TokenStore } from "../../../src/store/auth/tokens.ts";
import { runBerth } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { codeOf, startGateway, type TestGateway } from "./gateway.ts";

const trustedProxies = ["127.0.0.0/8", "::1/128"];

function lines(host: string, authEnabled: boolean, tokenCount = 1, proxies = trustedProxies): string[] {
  const config = { host, authEnabled, trustedProxies: proxies, adminPassword: undefined };
  return reachLines(config, 8080, { all: tokenCount, unconfirmed: 0 }).map(({ level, text }) => `${level} ${text}`);
}

describe("the log of a start about reachable routes", () => {
  it("warns of an open port, and of nothing on loopback", () => {
    assert.deepEqual(lines("127.0.0.1", false), [
      "info authentication is off; 127.0.0.1:8080 is reachable from this machine only",
    ]);
    assert.deepEqual(lines("0.0.0.0", false), [
      "warn authentication is off and 0.0.0.0:8080 is reachable from the network: everyone there can use it; SVC_HOST=127.0.0.1 keeps it to this machine",
    ]);
  });

  it("names the proxy, the open routes and the trusted addresses, and says that a token is missing", () => {
    const [address, open, trusted, ...rest] = lines("127.0.0.1", true);
    assert.match(address ?? "", /^info authentication is on; 127\.0\.0\.1:8080 is reachable from this machine only/);
    assert.equal(open, `info open without credentials: ${[...publicPaths, ...probePaths].join(", ")}`);
    assert.match(trusted ?? "", /^info 127\.0\.0\.0\/8, ::1\/128 may name an admin by X-Forwarded-Email/);
    assert.deepEqual(rest, []);
    assert.match(lines("::", true)[0] ?? "", /^warn .*\[::\]:8080 is reachable from the network and speaks plain HTTP/);
    assert.equal(lines("127.0.0.1", true, 1, [])[2], "info no proxy is trusted: tokens are the only way in");
    assert.equal(
      lines("127.0.0.1", true, 0)[3],
      "warn there is no token yet: berth token create --label NAME --scope admin",
    );
  });

  it("warns of tokens that were made while authentication was off, and of a password, which it does not print", () => {
    const config = { host: "127.0.0.1", authEnabled: true, trustedProxies, adminPassword: "canary" };
    const [tokens, password] = reachLines(config, 8080, { all: 3, unconfirmed: 2 }).filter(
      ({ level }) => level === "warn",
    );
    assert.equal(
      tokens?.text,
      "tokens made while authentication was off are refused until somebody confirms them, here 2: berth token list --confirm",
    );
    assert.match(password?.text ?? "", /^SVC_ADMIN_PASSWORD is set for the service, which does not use it/);
    assert.doesNotMatch(password?.text ?? "", /canary/);
  });

  it("is in the log, and authentication listens on loopback by default", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1", SVC_HOST: "" });
    assert.match(gateway.log(), /authentication is on; 127\.0\.0\.1:/);
    assert.match(gateway.log(), /there is no token yet/);
    assert.equal(gateway.running.url, `http://127.0.0.1:${gateway.running.port}`);
  });
});

const json = { "content-type": "application/json" };
const create = '{"label":"mallory","scope":"admin"}';

/** A token without a word of a confirmation. */
async function plant(stateDir: string, id: string, createdAt: string): Promise<string> {
  const secret = id.padEnd(43, "s");
  const record = { schema: 1, id, label: id, scope: "admin", created_at: createdAt, sha256: hash("sha256", secret) };
  await mkdir(join(stateDir, "auth", "tokens"), { recursive: true, mode: 0o700 });
  await writeFile(join(stateDir, "auth", "tokens", `${id}.json`), JSON.stringify(record), { mode: 0o600 });
  return `svc_${id}.${secret}`;
}

async function asks(gateway: TestGateway, token: string): Promise<{ status: number; body: string }> {
  return await gateway.ask("GET", "/api/slots", { authorization: `Bearer ${token}` });
}

function environment(stateDir: string, isEnabled: boolean): Record<string, string> {
  return { SVC_STATE_DIR: stateDir, SVC_CONFIG_DIR: stateDir, ...(isEnabled ? { SVC_AUTH_ENABLED: "1" } : {}) };
}

describe("authentication that is switched on", { concurrency: true }, () => {
  it("finds no token made over HTTP while it was off", async () => {
    await using gateway = await startGateway();
    const answer = await gateway.ask("POST", "/api/auth/tokens", json, create);
    assert.equal(answer.status, 403);
    assert.equal(codeOf(answer), "auth.forbidden");
    assert.match(answer.body, /`berth token create` on the service's machine/);
    assert.deepEqual(await gateway.tokens.list(), []);
  });

  it("refuses earlier tokens until a person confirms them, and says so to their holders alone", async () => {
    await using dir = await tempDir();
    const off = environment(dir.path, false);
    const on = environment(dir.path, true);
    await (await startGateway(off))[Symbol.asyncDispose]();
    const planted = await plant(dir.path, "planted2", new Date().toISOString());
    const made = await runBerth(["token", "create", "--label", "mine", "--scope", "admin"], off);
    assert.match(
      made.stderr,
      /Authentication is off: once it is on, this token counts after `berth token list --confirm`/,
    );
    const mine = made.stdout.trim();
    const id = mine.slice(4, 12);
    const anew = (await runBerth(["token", "create", "--label", "anew", "--scope", "admin"], on)).stdout.trim();

    await using gateway = await startGateway(on);
    assert.match(gateway.log(), /refused until somebody confirms them, here 2: berth token list --confirm/);
    assert.equal((await asks(gateway, anew)).status, 200, "made once the settings asked for tokens");
    const refused = await asks(gateway, mine);
    assert.equal(refused.status, 401);
    assert.match(refused.body, /made while authentication was off: it counts after `berth token list --confirm`/);
    const guessed = await asks(gateway, `svc_${id}.${"A".repeat(43)}`);
    assert.equal(guessed.status, 401);
    assert.doesNotMatch(guessed.body, /confirm/);

    const listed = (await runBerth(["token", "list"], on)).stdout;
    assert.match(listed, /COUNTS\n/);
    assert.match(listed, new RegExp(`${id} +mine .* once confirmed`));
    const unknown = await runBerth(["token", "list", "--confirm", "zzzzzzzz"], on);
    assert.match(unknown.stderr, /no token has the id "zzzzzzzz"/);
    const confirmed = await runBerth(["token", "list", "--confirm", id], on);
    assert.equal(confirmed.code, 0, confirmed.stderr);
    assert.match(confirmed.stdout, /mine/);
    assert.doesNotMatch(confirmed.stdout, /planted/);
    assert.equal((await asks(gateway, mine)).status, 200, "at its next request, without a restart");
    assert.equal((await asks(gateway, planted)).status, 401);
    assert.match(
      (await runBerth(["doctor"], on)).stdout,
      /warn +tokens: made while authentication was off, and refused until confirmed: planted2 \(planted2, admin\)/,
    );

    await runBerth(["token", "list", "--confirm"], on);
    assert.equal((await asks(gateway, planted)).status, 200, "all, where none is named");
    assert.equal((await runBerth(["token", "list", "--confirm"], on)).stdout, "no token waits for a confirmation\n");
  });

  it("keeps no confirmation of a revoked token", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const { id } = await tokens.create({ label: "ci", scope: "admin" });
    await tokens.revoke(id);
    const again = await plant(dir.path, id, new Date().toISOString());
    assert.equal(tokens.verify({ id, secret: again.slice(13) }), undefined);
    assert.equal((await tokens.list())[0]?.is_confirmed, false);
  });
});
