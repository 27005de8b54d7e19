import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import type { TokenRecord } from "../../../src/api/token.ts";
import { Gate, type GateOptions } from "../../../src/gateway/auth/gate.ts";
import { FailureThrottle } from "../../../src/gateway/auth/throttle.ts";
import { HostGuard } from "../../../src/gateway/http/hosts.ts";
import { thrownBy } from "../../support/rejection.ts";

const good = `svc_abcd2345.${"s".repeat(43)}`;
const bad = `svc_abcd2345.${"x".repeat(43)}`;
const record: TokenRecord = {
  schema: 1,
  id: "abcd2345",
  label: "laptop",
  scope: "all",
  created_at: "2026-01-01T00:00:00.000Z",
  sha256: createHash("sha256").update("s".repeat(43)).digest("hex"),
};

function gate(options: Partial<GateOptions> = {}): Gate {
  return new Gate({
    guard: new HostGuard([]),
    isEnabled: true,
    verify: ({ id, secret }) => (id === record.id && secret === "s".repeat(43) ? record : undefined),
    trustedProxies: ["127.0.0.0/8", "::1/128"],
    ...options,
  });
}

function request(headers: Record<string, string> = {}, peer = "127.0.0.1"): IncomingMessage {
  const socket = new Socket();
  Object.defineProperty(socket, "remoteAddress", { value: peer });
  const message = new IncomingMessage(socket);
  Object.assign(message.headers, headers);
  return message;
}

function refusal(act: () => unknown): Pick<ApiError, "code" | "status" | "headers"> {
  const { code, status, headers } = thrownBy(act, ApiError);
  return { code, status, headers };
}

const required = { code: "auth.required", status: 401, headers: { "www-authenticate": "Bearer" } };
const invalid = { code: "auth.invalid", status: 401, headers: { "www-authenticate": 'Bearer error="invalid_token"' } };
const byToken = { identity: "laptop", scope: "all", source: "token", tokenId: "abcd2345" };
const byProxy = { identity: "ada", scope: "admin", source: "proxy" };

describe("the gate, by credentials", () => {
  it("allows every caller every route while it is off", () => {
    const off = gate({ isEnabled: false });
    assert.deepEqual(off.admit(request({ authorization: "Bearer nonsense" }), "admin", "other"), {
      identity: "anonymous",
      scope: "admin",
      source: "none",
    });
  });

  it("asks for no credentials at a public route", () => {
    assert.equal(gate().admit(request({ authorization: `Bearer ${bad}` }), "public", "other").source, "none");
  });

  it("identifies callers by their credentials; a bearer takes precedence over the proxy's user header", () => {
    const rows: readonly (readonly [headers: Record<string, string>, outcome: object])[] = [
      [{}, required],
      [{ authorization: `Bearer ${good}` }, byToken],
      [{ authorization: `bearer ${good}` }, byToken],
      [{ authorization: `BEARER   ${good}` }, byToken],
      [{ authorization: `Bearer ${bad}` }, invalid],
      [{ authorization: "Bearer svc_nobody22." + "s".repeat(43) }, invalid],
      [{ authorization: "Bearer" }, invalid],
      [{ authorization: `Bearer ${good}x` }, invalid],
      [{ authorization: `Bearer ${good}, Bearer ${good}` }, invalid],
      [{ authorization: "Bearer sk-proj-something" }, invalid],
      [{ authorization: `Bearer svc_../../etc.${"s".repeat(43)}` }, invalid],
      [{ authorization: "Basic YWRhOnNlY3JldA==" }, invalid],
      [{ authorization: good }, invalid],
      [{ "x-forwarded-email": "ada" }, byProxy],
      [{ "x-forwarded-email": "ada", authorization: "Basic YWRhOnNlY3JldA==" }, byProxy],
      [{ "x-forwarded-email": "ada", authorization: `Bearer ${good}` }, byToken],
      [{ "x-forwarded-email": "ada", authorization: `Bearer ${bad}` }, invalid],
      [{ "x-forwarded-email": "ada", authorization: "Bearer" }, invalid],
      [{ "x-api-key": good }, byToken],
      [{ "x-api-key": bad }, invalid],
      [{ "x-api-key": `${good}, ${good}` }, invalid],
      [{ "x-api-key": "sk-ant-something" }, invalid],
      [{ "x-api-key": good, authorization: `Bearer ${bad}` }, invalid],
      [{ "x-api-key": good, authorization: "Basic YWRhOnNlY3JldA==" }, byToken],
      [{ "x-forwarded-email": "ada", "x-api-key": good }, byToken],
      [{ "x-forwarded-email": "ada", "x-api-key": bad }, invalid],
      [{ "x-forwarded-email": "ada", "x-api-key": "none" }, byProxy],
      [{ "x-forwarded-email": "eve, ada" }, required],
      [{ "x-forwarded-email": "ada\u0000" }, required],
      [{ "x-forwarded-email": "two words" }, required],
      [{ "x-forwarded-email": "a".repeat(255) }, required],
    ];
    for (const [headers, outcome] of rows) {
      const check = (): unknown => gate().admit(request(headers), "any", "other");
      assert.deepEqual("code" in outcome ? refusal(check) : check(), outcome, JSON.stringify(headers));
    }
  });

  it("believes the header from trusted peers only", () => {
    const rows: readonly (readonly [proxies: readonly string[], peer: string | undefined, isBelieved: boolean])[] = [
      [["127.0.0.0/8", "::1/128"], "127.0.0.1", true],
      [["127.0.0.0/8", "::1/128"], "::1", true],
      [["127.0.0.0/8", "::1/128"], "::ffff:127.0.0.1", true],
      [["127.0.0.0/8", "::1/128"], "192.168.1.5", false],
      [["127.0.0.0/8", "::1/128"], "::ffff:192.168.1.5", false],
      [["127.0.0.0/8"], "::1", false],
      [["fd00::/8"], "fd12::7", true],
      [["fd00::/8"], "fe80::7%eth0", false],
      [["10.1.2.3"], "10.1.2.3", true],
      [[], "127.0.0.1", false],
      [["127.0.0.0/8"], "", false],
    ];
    for (const [trustedProxies, peer, isBelieved] of rows) {
      const check = (): unknown =>
        gate({ trustedProxies }).admit(request({ "x-forwarded-email": "ada" }, peer), "admin", "other");
      assert.deepEqual(isBelieved ? check() : refusal(check), isBelieved ? byProxy : required, `${peer}`);
    }
  });

  it("lets a caller go on as long as its token is valid, whichever header has it", () => {
    for (const [headers, mayStill] of [
      [{ authorization: `Bearer ${good}` }, true],
      [{ "x-api-key": good }, true],
      [{ authorization: `Bearer ${bad}` }, false],
      [{ "x-api-key": bad }, false],
      [{ "x-forwarded-email": "ada" }, true],
    ] as const)
      assert.equal(gate().mayStill(request(headers), "read"), mayStill, JSON.stringify(headers));
  });

  it("throttles by peer, logs that once, and never delays a valid token", () => {
    const told: string[] = [];
    const auth = gate({
      throttle: new FailureThrottle({ failureLimit: 2, now: () => 0 }),
      onThrottled: (peer) => told.push(peer),
    });
    const wrong = (peer: string): string => {
      return refusal(() => auth.admit(request({ authorization: `Bearer ${bad}` }, peer), "v1", "other")).code;
    };
    assert.deepEqual(
      Array.from({ length: 4 }, () => wrong("203.0.113.1")),
      ["auth.invalid", "auth.invalid", "auth.throttled", "auth.throttled"],
    );
    assert.deepEqual(told, ["203.0.113.1"]);
    assert.equal(wrong("203.0.113.2"), "auth.invalid");
    assert.deepEqual(auth.admit(request({ authorization: `Bearer ${good}` }, "203.0.113.1"), "v1", "other"), byToken);
    assert.deepEqual(
      refusal(() => auth.admit(request({}, "203.0.113.1"), "v1", "other")),
      required,
      "no attempt, no failure",
    );
    const limited = refusal(() =>
      auth.admit(request({ authorization: `Bearer ${bad}` }, "203.0.113.1"), "v1", "other"),
    );
    assert.deepEqual(limited, { code: "auth.throttled", status: 429, headers: { "retry-after": "60" } });
    assert.deepEqual(
      ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"].map(wrong),
      ["auth.invalid", "auth.invalid", "auth.throttled", "auth.invalid"],
      "one IPv6 network is one peer",
    );
  });

  it("counts the address that a trusted proxy reports, and no other header", () => {
    const auth = gate({ throttle: new FailureThrottle({ failureLimit: 1, now: () => 0 }) });
    const wrong = (forwarded: string, peer = "127.0.0.1"): string => {
      const headers = { authorization: `Bearer ${bad}`, "x-forwarded-for": forwarded };
      return refusal(() => auth.admit(request(headers, peer), "v1", "other")).code;
    };
    assert.equal(wrong("203.0.113.1"), "auth.invalid");
    assert.equal(
      wrong("198.51.100.7, 203.0.113.1"),
      "auth.throttled",
      "what the client wrote first counts for nothing",
    );
    assert.equal(wrong("203.0.113.1, 198.51.100.7"), "auth.invalid");
    assert.equal(wrong("not an address"), "auth.invalid");
    assert.equal(wrong("nor this"), "auth.throttled", "then it is the proxy itself");
    assert.equal(wrong("192.0.2.1", "203.0.113.50"), "auth.invalid");
    assert.equal(wrong("192.0.2.2", "203.0.113.50"), "auth.throttled", "a stranger's header changes nothing");
  });

  it("does not wait for the long body of a refused request", () => {
    const connection = (headers: Record<string, string>): string | undefined =>
      refusal(() => gate().admit(request(headers), "v1", "other")).headers["connection"];
    assert.equal(connection({ "content-length": "65536" }), undefined);
    assert.equal(connection({ "content-length": "65537" }), "close");
    assert.equal(connection({ "transfer-encoding": "chunked", authorization: `Bearer ${bad}` }), "close");
    const headers = { "transfer-encoding": "chunked", authorization: `Bearer ${good}` };
    const { code, headers: told } = refusal(() => gate().admit(request(headers), "admin", "other"));
    assert.deepEqual([code, told["connection"]], ["auth.forbidden", "close"]);
  });
});

describe("throttle of failures", () => {
  it("counts per peer and window, and logs once when it begins", () => {
    let now = 1000;
    const throttle = new FailureThrottle({ failureLimit: 2, windowMs: 10_000, now: () => now });
    assert.equal(throttle.failed("a"), undefined);
    now += 4000;
    assert.equal(throttle.failed("a"), undefined);
    assert.deepEqual(throttle.failed("a"), { retryAfterSeconds: 6, isFirst: true });
    assert.deepEqual(throttle.failed("a"), { retryAfterSeconds: 6, isFirst: false });
    assert.equal(throttle.failed("b"), undefined, "another peer is not its neighbour's keeper");
    now += 5999;
    assert.deepEqual(throttle.failed("a"), { retryAfterSeconds: 1, isFirst: false });
    now += 1;
    assert.equal(throttle.failed("a"), undefined, "a new window");
  });

  it("forgets the peer whose last failure is the oldest, so that its size stays bounded", () => {
    const throttle = new FailureThrottle({ failureLimit: 1, peerLimit: 3, now: () => 0 });
    for (const peer of ["a", "b", "c"]) throttle.failed(peer);
    assert.ok(throttle.failed("a"), "seen again, and so the youngest");
    throttle.failed("d");
    assert.equal(throttle.size, 3);
    assert.ok(throttle.failed("a"));
    assert.equal(throttle.failed("b"), undefined, "b was forgotten");
    for (let peer = 0; peer < 100_000; peer++) throttle.failed(`peer ${peer}`);
    assert.equal(throttle.size, 3);
  });
});
