import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, constants } from "node:http2";
import { it } from "node:test";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import { serveOperator } from "../../../src/operator/report/server.ts";
import { serverBehind } from "../../support/server-behind.ts";

it("a client of HTTP/2 gets an error that HTTP/1.1 is required", async () => {
  await using served = await serveOperator({
    port: 0,
    metrics: () => new MetricPage(),
    state: () => "ready",
    places: { configDir: "/c", stateDir: "/s", modelsDir: "/m", host: "127.0.0.1", port: 8080, authEnabled: false },
  });
  const client = connect(`http://127.0.0.1:${served.port}`).on("error", () => undefined);
  const [code, , reason]: unknown[] = await once(client, "goaway");
  assert.deepEqual(
    [code, String(reason)],
    [constants.NGHTTP2_HTTP_1_1_REQUIRED, "HTTP/2 is not supported: send HTTP/1.1"],
  );
  client.destroy();
});

it("connections that the system cannot give end nothing", async () => {
  await using served = await serveOperator({
    port: 0,
    metrics: () => new MetricPage(),
    state: () => "ready",
    places: { configDir: "/c", stateDir: "/s", modelsDir: "/m", host: "127.0.0.1", port: 8080, authEnabled: false },
  });
  const url = `http://127.0.0.1:${served.port}/readyz`;
  const server = await serverBehind(url);
  for (let failed = 0; failed < 3; failed++) server.emit("error", new Error("accept ENFILE"));
  assert.equal((await fetch(url)).status, 200);
});
