import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { probePaths, publicPaths } from "../../../src/api/scopes.ts";
import { reachLines } from "../../../src/gateway/auth/reach.ts";
import { startGateway } from "./gateway.ts";

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

  it("warns of tokens that were made while authentication was off", () => {
    const config = { host: "127.0.0.1", authEnabled: true, trustedProxies, adminPassword: undefined };
    assert.equal(
      reachLines(config, 8080, { all: 3, unconfirmed: 2 }).at(-1)?.text,
      "tokens made while authentication was off are refused until somebody confirms them, here 2: berth token list --confirm",
    );
  });

  it("warns of a password that the service does not use, without printing it", () => {
    const config = { host: "127.0.0.1", authEnabled: false, trustedProxies, adminPassword: "canary" };
    const [, line] = reachLines(config, 8080, { all: 0, unconfirmed: 0 });
    assert.equal(line?.level, "warn");
    assert.match(line?.text ?? "", /^SVC_ADMIN_PASSWORD is set for the service, which does not use it/);
    assert.doesNotMatch(line?.text ?? "", /canary/);
  });

  it("is in the log, and authentication listens on loopback by default", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1", SVC_HOST: "" });
    assert.match(gateway.log(), /authentication is on; 127\.0\.0\.1:/);
    assert.match(gateway.log(), /there is no token yet/);
    assert.equal(gateway.running.url, `http://127.0.0.1:${gateway.running.port}`);
  });
});
