import assert from "node:assert/strict";
import { createServer } from "node:https";
import { describe, it } from "node:test";
import { openApiClient, type Call, type Method } from "../../src/kubernetes/client.ts";
import { fencedClient } from "../../src/kubernetes/fenced-client.ts";
import { acquireLease } from "../../src/kubernetes/lease-election.ts";
import { openDemandLease } from "../../src/store/kubernetes/demand.ts";
import { ApiDouble } from "../doubles/api-client.ts";
import { certificate } from "../support/certificate.ts";
import { listen } from "../support/listen.ts";
import { later } from "../support/later.ts";
import { until } from "../support/until.ts";

/** A request that came. */
interface Seen {
  readonly method: string;
  readonly path: string;
  /** How long after the first one, in milliseconds. */
  readonly afterMs: number;
}

/** A DOUBLE of an API server that refuses the first requests, and says how many seconds to wait; `isMute`: then it says nothing. */
async function refusing(times: number, retryAfter: string, isMute = false) {
  const seen: Seen[] = [];
  let firstMs: number | undefined;
  const server = createServer(certificate, (asked, answer) => {
    const { method = "", url: path = "" } = asked;
    const cameMs = performance.now();
    firstMs ??= cameMs;
    seen.push({ method, path, afterMs: cameMs - firstMs });
    asked.resume();
    const isRefused = seen.length <= times;
    if (!isRefused && isMute) return;
    answer.writeHead(isRefused ? 429 : 200, isRefused ? { "retry-after": retryAfter } : {});
    answer.end(JSON.stringify(isRefused ? { kind: "Status", code: 429, message: "too many" } : { kind: "Found" }));
  });
  const port = await listen(server);
  const client = openApiClient({
    server: `https://127.0.0.1:${port}`,
    namespace: "home",
    tls: { ca: certificate.cert, servername: "hub.test" },
    authorization: () => Promise.resolve(undefined),
  });
  return {
    client,
    seen,
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe("a client of an API server that is asked too much", { concurrency: true }, () => {
  it("comes again when the server says, which the caller does not notice", async () => {
    await using site = await refusing(1, "1");
    assert.deepEqual(await site.client.request("GET", "/first"), { kind: "Found" });
    const [refused, again] = site.seen;
    assert.deepEqual([refused?.path, again?.path, site.seen.length], ["/first", "/first", 2]);
    assert.ok((again?.afterMs ?? 0) >= 990, `after ${again?.afterMs} ms`);
  });

  it("says so at once where the pause is longer than the request may last, and keeps to it", async () => {
    await using site = await refusing(1, "3600");
    const busy = { name: "ApiError", status: 429 };
    await assert.rejects(site.client.request("GET", "/first"), { ...busy, message: "too many" });
    await assert.rejects(site.client.request("GET", "/second"), { ...busy, message: /no request for another \d+ s/ });
    await assert.rejects(site.client.lines("/watch"), busy);
    assert.deepEqual(
      site.seen.map(({ path }) => path),
      ["/first"],
    );
  });

  it("sends heartbeats all the same: a Lease is renewed, and demand is told", async () => {
    await using site = await refusing(2, "3600");
    await assert.rejects(site.client.request("GET", "/first"), { status: 429 });
    await assert.rejects(site.client.request("PUT", "/lease", { isHeartbeat: true }), { status: 429 });
    assert.deepEqual(await site.client.request("PUT", "/lease", { isHeartbeat: true }), { kind: "Found" });
    await assert.rejects(site.client.request("GET", "/second"), { status: 429 });
    assert.deepEqual(
      site.seen.map(({ path }) => path),
      ["/first", "/lease", "/lease"],
    );
    const calls: [string, boolean | undefined][] = [];
    using api = new ApiDouble();
    const request = api.request.bind(api);
    api.request = async (method, path, call) => {
      calls.push([method, call?.isHeartbeat]);
      return await request(method, path, call);
    };
    const candidate = { client: api, name: "one", identity: "me", labels: {}, annotations: () => ({}) };
    await using lease = await acquireLease(candidate, { onLost: () => undefined });
    await lease.renew();
    await using demand = openDemandLease(api, "g");
    await demand.write({ slots: {} });
    assert.deepEqual(calls, [
      ["GET", true],
      ["POST", true],
      ["PUT", true],
      ["PATCH", true],
    ]);
  });

  it("says why a server does not answer, and keeps the status of an answer that breaks off", async () => {
    const server = createServer(certificate, (_asked, answer) => {
      answer.writeHead(503, { "content-length": 100 });
      answer.write("over");
      setImmediate(() => answer.destroy());
    });
    const port = await listen(server);
    await using stack = new AsyncDisposableStack();
    stack.defer(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    const at = { server: `https://127.0.0.1:${port}`, namespace: "home", authorization: async () => undefined };
    using client = openApiClient({ ...at, tls: { ca: certificate.cert, servername: "hub.test" } });
    await assert.rejects(client.request("GET", "/a"), { name: "ApiError", status: 503 });
    using stranger = openApiClient({ ...at, tls: {} });
    const message = /^the API server at https:\S+ does not answer: self-signed certificate/;
    await assert.rejects(stranger.request("GET", "/a"), { name: "ApiUnreachable", message });
  });

  it("ends a wait that is aborted", async () => {
    await using site = await refusing(1, "10");
    const stop = new AbortController();
    const waiting = site.client.request("GET", "/first", { signal: stop.signal });
    await until("it was refused", () => site.seen.length > 0);
    stop.abort();
    await assert.rejects(waiting, { name: "AbortError" });
  });

  it("has one deadline for the pause and for the request after it", async (t) => {
    const timers = t.mock.method(globalThis, "setTimeout");
    await using site = await refusing(1, "1", true);
    const asked = later(site.client.request("PUT", "/a", { timeoutMs: 60_000 }));
    await until("it has come again", () => site.seen.length === 2);
    // By the timers of the two requests, and not by the clock: how late each is depends on the machine.
    const [first, again, ...more] = timers.mock.calls
      .map(({ arguments: [end, ms = 0] }) => ({ end, ms }))
      .filter(({ ms }) => ms > 15_000 && ms <= 60_000);
    assert.ok(first !== undefined && again !== undefined && more.length === 0);
    // The refusal and the pause have taken a second of the one deadline.
    assert.ok(again.ms <= 59_100, `${again.ms} ms after ${first.ms} ms`);
    again.end();
    await assert.rejects(asked, { name: "ApiUnreachable" });
  });

  it("asks whether its sender may still write after the pause, and sends nothing where it may not", async () => {
    await using site = await refusing(1, "1");
    let isLost = false;
    const fenced = fencedClient(site.client, () => {
      if (isLost) throw new Error("another leads");
    });
    const writing = fenced.request("PATCH", "/status");
    await until("it was refused", () => site.seen.length > 0);
    isLost = true;
    await assert.rejects(writing, /another leads/);
    assert.deepEqual(await fenced.request("GET", "/status"), { kind: "Found" });
    assert.deepEqual(
      site.seen.map(({ method }) => method),
      ["PATCH", "GET"],
    );
  });

  it("gives a write of a leader up where it leads no more, and no sooner than its sender says", async () => {
    await using site = await refusing(0, "", true);
    let isLost = false;
    const fenced = fencedClient(site.client, () => {
      if (isLost) throw new Error("another leads");
    });
    const [writing, mute] = [fenced.request("POST", "/pods", { timeoutMs: 600_000 }), fenced.request("PUT", "/a")];
    await until("both were sent", () => site.seen.length === 2);
    isLost = true;
    await assert.rejects(writing, /another leads/);
    await assert.rejects(mute, /another leads/);
    const limits: (number | undefined)[] = [];
    using client = new ApiDouble();
    client.request = async (_method: Method, _path: string, call?: Call) => limits.push(call?.timeoutMs);
    const other = fencedClient(client, () => undefined);
    await other.request("PATCH", "/status");
    await other.request("POST", "/pods", { timeoutMs: 60_000 });
    assert.deepEqual(limits, [undefined, 60_000]);
  });
});
