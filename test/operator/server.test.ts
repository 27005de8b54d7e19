import assert from "node:assert/strict";
import { it } from "node:test";
import { Registry } from "prom-client";
import { serveOperator } from "../../src/operator/server.ts";
import { serverBehind } from "../support/server-behind.ts";

it("connections that the system cannot give end nothing", async () => {
  await using served = await serveOperator({
    port: 0,
    registry: new Registry(),
    isReady: () => true,
    places: { configDir: "/c", stateDir: "/s", modelsDir: "/m" },
  });
  const url = `http://127.0.0.1:${served.port}/readyz`;
  const server = await serverBehind(url);
  for (let failed = 0; failed < 3; failed++) server.emit("error", new Error("accept ENFILE"));
  assert.equal((await fetch(url)).status, 200);
});
