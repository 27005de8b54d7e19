import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { it } from "node:test";
import { freePort } from "../support/free-port.ts";
import { startGateway } from "../support/gateway.ts";
import { packagesOf } from "../support/packages.ts";

// Memory at rest: what only an upstream, a written manifest or a check of files needs is loaded for those.
it("a gateway that starts loads no client of providers, and no parser of manifests", async () => {
  const packages = await packagesOf("src/gateway/main.ts");
  assert.deepEqual([...packages.keys()].toSorted(), ["fastify", "prom-client", "zod"], JSON.stringify([...packages]));
});

it("a gateway that cannot start does not listen", async () => {
  const port = await freePort();
  const onStart = (stateDir: string): void => {
    rmSync(stateDir, { recursive: true });
    writeFileSync(stateDir, "no directory");
  };
  await assert.rejects(startGateway({ env: { SVC_PORT: String(port) }, onStart }), { code: "ENOTDIR" });
  await assert.rejects(fetch(`http://127.0.0.1:${port}/livez`), { message: "fetch failed" });
});
