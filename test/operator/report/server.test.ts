import assert from "node:assert/strict";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { it } from "node:test";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import { serveOperator, type OperatorServer } from "../../../src/operator/report/server.ts";
import { LeadershipLost } from "../../../src/store/store.ts";
import { serverBehind } from "../../support/server-behind.ts";

const places = {
  configDir: "/c",
  stateDir: "/s",
  modelsDir: "/m",
  host: "127.0.0.1",
  port: 8080,
  authEnabled: false,
} as const;
const serve = (more: Partial<Parameters<typeof serveOperator>[0]> = {}): Promise<OperatorServer> =>
  serveOperator({
    port: 0,
    metrics: () => new MetricPage(),
    state: () => "ready",
    lease: () => undefined,
    places,
    ...more,
  });

it("an operator that could not renew its right to act is alive, and not ready until it could", async () => {
  let isHeld = true;
  const check = (): void => {
    if (!isHeld) throw new LeadershipLost();
  };
  const lease = { check, [Symbol.asyncDispose]: async () => undefined };
  let given: typeof lease | undefined;
  let state: "starting" | "standby" | "ready" = "standby";
  await using served = await serve({ state: () => state, lease: () => given });
  const says = async (path: string): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${served.port}/${path}`);
    return `${answer.status} ${(await answer.text()).trim()}`;
  };
  assert.equal(await says("readyz"), "200 standby");
  [given, state] = [lease, "ready"];
  assert.equal(await says("readyz"), "200 ok");
  isHeld = false;
  assert.match(await says("readyz"), /^503 leadership was not renewed in time: nothing is started or stopped/);
  assert.equal(await says("livez"), "200 ok");
  isHeld = true;
  assert.equal(await says("readyz"), "200 ok");
});

it("connections that the system cannot give end nothing", async () => {
  await using served = await serve();
  const url = `http://127.0.0.1:${served.port}/readyz`;
  const server = await serverBehind(url);
  for (let failed = 0; failed < 3; failed++) server.emit("error", new Error("accept ENFILE"));
  assert.equal((await fetch(url)).status, 200);
});

it("a page of another site that has rebound its name to the operator's address learns no directories", async () => {
  await using served = await serve();
  const status = async (host: string): Promise<number | undefined> => {
    const request = get({ host: "127.0.0.1", port: served.port, path: "/instance", headers: { host }, agent: false });
    const [answer]: IncomingMessage[] = await once(request, "response");
    answer?.resume();
    return answer?.statusCode;
  };
  const own = [`127.0.0.1:${served.port}`, `localhost:${served.port}`, `[::1]:${served.port}`, "127.0.0.1"];
  assert.deepEqual(await Promise.all(own.map(status)), [200, 200, 200, 200]);
  assert.deepEqual(await Promise.all([`rebound.example:${served.port}`, "1.example"].map(status)), [403, 403]);
});
